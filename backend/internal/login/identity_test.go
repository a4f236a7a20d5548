package login

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/refusal"
)

func TestH10_NoPrefixMakesAGroupOneOfKubernetesOwn(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"": false, "s": false, "sys": false, "system": false, "system:": false, "system:x:": false, "kube": false, "kubeadm:": false,
		"oidc:": true, "systems:": true, "System:": true, "ci:": true,
	} {
		for what, change := range map[string]func(*Config){
			"users":  func(c *Config) { c.Username.Prefix = prefix },
			"groups": func(c *Config) { c.Groups.Prefix = prefix },
		} {
			if _, err := NewIssuer(config("https://x", change), slog.New(slog.DiscardHandler)); (err == nil) != ok {
				t.Errorf("prefix %q of %s: %v", prefix, what, err)
			}
		}
	}
}

func TestH10_GroupsAreNamesAndNotTooMany(t *testing.T) {
	i := newIssuer(t)
	v := verifier(t, config(i.url))
	waitReady(t, v)
	many := make([]string, 5000)
	for n := range many {
		many[n] = fmt.Sprint("g", n)
	}
	for _, c := range []struct {
		name   string
		groups any
		words  string
	}{
		{"as many as there may be", many[:mostGroups], ""},
		{"one more", many[:mostGroups+1], "has 501 names, at most 500"},
		{"thousands", many, "has 5000 names"},
		{"a line break", []string{"dev", "x\noidc:admins"}, "no name"},
		{"a NUL", []string{"x\x00"}, "no name"},
		{"an empty one", []string{""}, "no name"},
		{"a long one", []string{strings.Repeat("x", longestName+1)}, "no name"},
		{"one name with a line break", "x\ny", "no name"},
	} {
		_, err := v.Verify(t.Context(), i.token(map[string]any{"groups": c.groups}))
		if c.words == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		refused(t, c.name, err, refusal.Unauthenticated, c.words)
	}
}
