package unbind

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func bound(name, template string) v1alpha1.APIServiceBinding {
	return v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.APIServiceBindingSpec{Template: template}}
}

func TestFind(t *testing.T) {
	all := []v1alpha1.APIServiceBinding{bound("databases.example.com", "database"), bound("databases.example.org", "other"), bound("queues.example.com", "")}
	for name, want := range map[string]string{
		"databases.example.com": "databases.example.com", "database": "databases.example.com", "queues": "queues.example.com", "nothing": "", "databases": "error",
	} {
		b, err := find(all, name)
		got := ""
		switch {
		case err != nil:
			got = "error"
		case b != nil:
			got = b.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestNoClaimGoesWithoutADecision(t *testing.T) {
	for _, c := range []struct {
		claims  int
		policy  v1alpha1.DeletionPolicy
		refused bool
	}{
		{0, v1alpha1.DeletionRefuse, false},
		{1, v1alpha1.DeletionRefuse, true},
		{1, "", true},
		{1, "Something", true},
		{1, v1alpha1.DeletionOrphan, false},
		{1, v1alpha1.DeletionDelete, false},
	} {
		p := plan{name: "databases.example.com", policy: c.policy, claims: make([]string, c.claims)}
		if err := p.refused(); (err != nil) != c.refused {
			t.Errorf("%d claims, %q: %v", c.claims, c.policy, err)
		}
	}
}

func TestWhatGoesIsShownAndALongListIsCut(t *testing.T) {
	p := plan{name: "databases.example.com", policy: v1alpha1.DeletionDelete}
	for i := range 25 {
		p.claims = append(p.claims, fmt.Sprintf("team-a/db-%02d", i))
	}
	var out bytes.Buffer
	p.show(&out)
	for _, want := range []string{"25 claims go, and their SERVICES ARE DELETED", "    team-a/db-19\n", "    and 5 more\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
