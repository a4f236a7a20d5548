package tenant_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/tenant"
)

var id = rapid.StringMatching(`[a-z][a-z0-9]{9}`)
var label = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`)
var name = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,90}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,90}[a-z0-9])?)?`)

func TestLabelsLeadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := tenant.Cluster{ID: id.Draw(t, "id")}
		key := contract.Key{Binding: "caches.example.org", Namespace: label.Draw(t, "namespace"), Name: name.Draw(t, "name")}
		namespace := c.ClaimNamespace(key.Namespace)
		if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
			t.Fatalf("namespace %q: %v", namespace, msgs)
		}
		labels := c.Labels(key)
		for k, v := range labels {
			if msgs := validation.IsValidLabelValue(v); len(msgs) > 0 {
				t.Fatalf("label %s=%q: %v", k, v, msgs)
			}
		}
		gotID, gotKey, ok := tenant.Origin(key.Binding, namespace, key.Name, labels)
		if !ok || gotID != c.ID || gotKey != key {
			t.Fatalf("origin = %s %v %v, want %s %v", gotID, gotKey, ok, c.ID, key)
		}
		if full, ok := c.Annotations(key)[tenant.NameLabel]; ok != (labels[tenant.NameLabel] != key.Name) || ok && full != key.Name {
			t.Fatalf("annotation %q beside label %q of %q", full, labels[tenant.NameLabel], key.Name)
		}
	})
}

func TestEqualNamesOfTwoClustersNeverMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tenant.Cluster{ID: id.Draw(t, "a")}, tenant.Cluster{ID: id.Draw(t, "b")}
		n, m := label.Draw(t, "n"), label.Draw(t, "m")
		if a.ID == b.ID && n == m {
			t.Skip()
		}
		if got := a.ClaimNamespace(n); got == b.ClaimNamespace(m) {
			t.Fatalf("%s of %s and %s of %s are both %s", n, a.ID, m, b.ID, got)
		}
	})
}

func TestAnObjectElsewhereBelongsToNoClaim(t *testing.T) {
	c := tenant.Cluster{ID: "k3x9d2abqw"}
	key := contract.Key{Binding: "caches.example.org", Namespace: "team-a", Name: "orders"}
	for what, change := range map[string]func(namespace, name *string, labels map[string]string){
		"in another namespace":         func(ns, _ *string, _ map[string]string) { *ns = "default" },
		"in another cluster's":         func(ns, _ *string, _ map[string]string) { *ns = "gb-aaaaaaaaaa-team-a" },
		"with another cluster's label": func(_, _ *string, l map[string]string) { l[tenant.ClusterLabel] = "aaaaaaaaaa" },
		"with another namespace label": func(_, _ *string, l map[string]string) { l[tenant.NamespaceLabel] = "team-b" },
		"with another name":            func(_, name *string, _ map[string]string) { *name = "other" },
		"without labels":               func(_, _ *string, l map[string]string) { clear(l) },
	} {
		namespace, name, labels := c.ClaimNamespace("team-a"), key.Name, c.Labels(key)
		change(&namespace, &name, labels)
		if id, got, ok := tenant.Origin(key.Binding, namespace, name, labels); ok {
			t.Errorf("%s: origin %s %v", what, id, got)
		}
	}
}

func TestLongNamespacesAreHashed(t *testing.T) {
	c := tenant.Cluster{ID: "k3x9d2abqw"}
	if got := c.ClaimNamespace("team-a"); got != "gb-k3x9d2abqw-team-a" {
		t.Errorf("got %s", got)
	}
	long := strings.Repeat("x", 50)
	if got := c.ClaimNamespace(long); got != "gb-k3x9d2abqw-"+strings.Repeat("x", 36)+"-"+got[len(got)-12:] || len(got) != 63 {
		t.Errorf("got %s of %d characters", got, len(got))
	}
}
