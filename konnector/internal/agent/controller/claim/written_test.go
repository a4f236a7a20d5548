package claim

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatWasWrittenIsNewerUntilTheCacheShowsIt(t *testing.T) {
	object := func(uid types.UID, version string) *cachedClaim {
		return &cachedClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "orders", UID: uid, ResourceVersion: version}}
	}
	ours, err := object("u1", "100").object()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		cached *cachedClaim
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
		if isOurs := w.newer(key, tc.cached) != nil; isOurs != tc.ours {
			t.Errorf("%s: got what was written: %t", tc.name, isOurs)
		}
		if kept := len(w.objects) > 0; kept != tc.ours {
			t.Errorf("%s: kept: %t", tc.name, kept)
		}
	}
}
