package claim

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
		// ours says that what was written is newer, settled that it is no news.
		ours, settled bool
	}{
		{"behind", object("u1", "99"), true, true},
		{"there", object("u1", "100"), false, true},
		{"later", object("u1", "1000"), false, false},
		{"another object of that name", object("u2", "99"), false, false},
		{"gone", nil, false, false},
		{"a version that is no number", object("u1", "x"), false, false},
	} {
		w := &written{}
		w.note(ours)
		if isOurs := w.newer(key, tc.cached) != nil; isOurs != tc.ours {
			t.Errorf("%s: got what was written: %t", tc.name, isOurs)
		}
		if kept := len(w.objects) > 0; kept != tc.ours {
			t.Errorf("%s: kept: %t", tc.name, kept)
		}
		if tc.cached == nil {
			continue
		}
		w.note(ours)
		events := w.predicate()
		if !events.Update(event.UpdateEvent{ObjectNew: tc.cached}) {
			t.Errorf("%s: what was not settled is not looked at again", tc.name)
		}
		w.settle(key)
		if again := events.Update(event.UpdateEvent{ObjectNew: tc.cached}); again == tc.settled {
			t.Errorf("%s: looked at again: %t", tc.name, again)
		}
		if kept := len(w.objects) > 0; kept == (tc.name == "there") {
			t.Errorf("%s: kept after its event: %t", tc.name, kept)
		}
		w.note(ours)
		w.settle(key)
		if looked := events.Create(event.CreateEvent{Object: tc.cached}); looked == tc.settled {
			t.Errorf("%s: looked at when it came: %t", tc.name, looked)
		}
	}
}
