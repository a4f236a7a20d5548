package claim

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestNewestIsWhatWasWrittenUntilTheCacheShowsIt(t *testing.T) {
	object := func(uid types.UID, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetNamespace("team-a")
		u.SetName("orders")
		u.SetUID(uid)
		u.SetResourceVersion(version)
		return u
	}
	name := types.NamespacedName{Namespace: "team-a", Name: "orders"}
	ours := object("u1", "100")
	for _, tc := range []struct {
		name   string
		cached *unstructured.Unstructured
		ours   bool
	}{
		{"behind", object("u1", "99"), true},
		{"there", object("u1", "100"), false},
		{"later", object("u1", "1000"), false},
		{"another object of that name", object("u2", "99"), false},
		{"gone", nil, false},
		{"a version that is no number", object("u1", "x"), false},
	} {
		w := &written{}
		w.note(ours)
		got := w.newest(name, tc.cached)
		if isOurs := got != tc.cached; isOurs != tc.ours {
			t.Errorf("%s: got what was written: %t", tc.name, isOurs)
		}
		if kept := len(w.objects) > 0; kept != tc.ours {
			t.Errorf("%s: kept: %t", tc.name, kept)
		}
	}
}
