package app_test

import (
	"strconv"
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
)

// TestD13_AKonnectorWhoseClockIsAnHourWrong runs a konnector an hour ahead, then
// one an hour behind, then one that is right, in one cluster, while people and
// API server have the right time. Programs of Go read the kernel's clock past the
// C library, so the konnector gets its clock from the test.
func TestD13_AKonnectorWhoseClockIsAnHourWrong(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("kept", spec("small"))
	w.committed("kept")
	kept := w.get("kept").GetUID()
	// Beside these, three removals are not many.
	for i := range 6 {
		w.apply("other-"+strconv.Itoa(i), spec("small"))
		w.committed("other-" + strconv.Itoa(i))
	}
	for _, clock := range []struct {
		name, here, there string
		offset            time.Duration
	}{{"ahead", "medium", "big", time.Hour}, {"behind", "small", "medium", -time.Hour}, {"right", "big", "small", 0}} {
		w.stop()
		w.now = func() time.Time { return time.Now().Add(clock.offset) }
		w.start()
		// A commit has whole seconds.
		began := time.Now().Truncate(time.Second)
		w.setSpec("kept", clock.here, "plan")
		w.fileIs("kept", plan(clock.here))
		w.committed("kept")
		seconds, err := strconv.ParseInt(w.log("%ct")[0], 10, 64)
		w.must(err)
		if at := time.Unix(seconds, 0).Add(-clock.offset); at.Before(began) || at.After(time.Now()) {
			t.Errorf("%s: the commit is of %s, want what the konnector's clock said, %s from now, since %s", clock.name, time.Unix(seconds, 0), clock.offset, began)
		}
		// A person's commit is an hour older than its parent, or younger.
		w.commit("kept", "service: a9s-postgresql13", "plan: "+clock.there)
		w.objectIs("kept", plan(clock.there))

		w.apply(clock.name, spec("small"))
		w.committed(clock.name)
		u := w.get(clock.name)
		w.deleteObject(clock.name)
		w.fileGone(clock.name)
		w.answer(clock.name, contract.Status{Result: contract.Gone, UID: string(u.GetUID())})
		w.objectGone(clock.name)
	}
	if now := w.get("kept").GetUID(); now != kept {
		t.Errorf("the claim that stayed was made again: %s is now %s", kept, now)
	}
}
