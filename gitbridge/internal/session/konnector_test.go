package session_test

import (
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// A bridge that was away takes the konnector's commits one by one, whatever its
// clock says, and people's pushes as one.
func TestRemovalsCountWhenTheKonnectorMadeThem(t *testing.T) {
	day := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // a clock that is wrong
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 20)
	r.stop()
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		w.konnector(day.Add(time.Duration(i)*time.Hour), name)
	}
	for i, name := range []string{"f", "g", "h", "i"} {
		w.konnector(day.Add(10*time.Hour+time.Duration(i)*time.Second), name)
	}
	w.konnector(day.Add(20*time.Hour), "j!", "k!", "l!", "m!")
	r = w.startAndFollow()
	want := map[string]contract.Reason{"i": contract.ManyRemovals}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"} {
		got := r.wantRemoval(name, "", want[name])
		if approved := name >= "j"; got.Approved != approved {
			t.Errorf("%s: approved %v", name, got.Approved)
		}
	}
}

func TestAnApprovalCountsInTheKonnectorsCommitsOnly(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	names := ordered(w, r, 10)
	files, trailers := map[string]string{}, []store.Trailer{}
	for _, name := range names[:5] {
		files[path(name)] = ""
		trailers = append(trailers, store.Trailer{Key: contract.TrailerApproved, Value: path(name)})
	}
	w.commit("Remove", files, trailers...)
	r.follows()
	r.wantRemoval("a", "", contract.ManyRemovals)
}

// What the konnector made and deleted before the bridge could answer it is
// deleted, and what no commit can be seen to remove is not.
func TestARemovalOfWhatWasNotAnsweredIsKnownByItsTrailer(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 9)
	w.commit("Add", map[string]string{path("x"): "1"})
	r.follows()
	r.stop()
	w.konnector(time.Now(), "x")
	again := w.startAndFollow()
	again.wantRemoval("x", "", "")
}
