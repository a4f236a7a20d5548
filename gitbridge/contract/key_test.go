package contract

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPathAndKeyAreInverse(t *testing.T) {
	label := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		k := Key{
			Binding:   label.Draw(t, "plural") + "." + label.Draw(t, "group"),
			Namespace: label.Draw(t, "namespace"),
			Name:      label.Draw(t, "name") + rapid.SampledFrom([]string{"", ".yaml", ".b", "-claims"}).Draw(t, "tail"),
		}
		got, err := ParsePath(k.Path())
		if err != nil || got != k {
			t.Fatalf("ParsePath(%q) = %v, %v; want %v", k.Path(), got, err, k)
		}
	})
}

func TestParsePathRefuses(t *testing.T) {
	const b = "postgresqlinstances.anynines.com"
	for path, isClaimPath := range map[string]bool{
		"bindings/" + b + "/claims/team-a/orders.yaml.txt":                       false,
		"bindings/" + b + "/claims/team-a/orders.yml":                            false,
		"bindings/" + b + "/claims/orders.yaml":                                  false,
		"bindings/" + b + "/claims/team-a/sub/orders.yaml":                       false,
		"bindings/" + b + "/export.yaml":                                         false,
		"README.md":                                                              false,
		"bindings/" + b + "/claims/team-a/..yaml":                                true,
		"bindings/" + b + "/claims/Team-A/orders.yaml":                           true,
		"bindings/" + b + "/claims/team-a/Orders.yaml":                           true,
		"bindings/nogroup/claims/team-a/orders.yaml":                             true,
		"bindings/" + b + "/claims/../orders.yaml":                               true,
		"bindings/" + b + "/claims/team-a/" + strings.Repeat("x", 201) + ".yaml": true,
	} {
		_, err := ParsePath(path)
		if err == nil {
			t.Errorf("ParsePath(%q): no error", path)
		}
		if errors.Is(err, ErrNotClaimPath) == isClaimPath {
			t.Errorf("ParsePath(%q): %v", path, err)
		}
	}
}

func TestStatusOfOtherFilesHasItsOwnFolder(t *testing.T) {
	for path, want := range map[string]string{
		"bindings/a.b/claims/n/c.yaml": "bindings/a.b/claims/n/c.yaml",
		"bindings/a.b/export.yaml":     "refused/bindings/a.b/export.yaml",
		"bindings/a.b/claims/N/c.yaml": "refused/bindings/a.b/claims/N/c.yaml",
		// What Git clients would not check out.
		"bindings/../x":      "refused/sha256-",
		"bindings/a\nb":      "refused/sha256-",
		"bindings/.GIT/hook": "refused/sha256-",
	} {
		if got := StatusPath(path); got != want && (!strings.HasSuffix(want, "-") || !strings.HasPrefix(got, want)) {
			t.Errorf("StatusPath(%q) = %q, want %q", path, got, want)
		}
	}
}
