package session_test

import (
	"strings"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// L3: a bridge answers a commit, and ends before it saved that it accepted it. If the
// host loses the commit then, main descends from what was saved, and is older than what
// was applied.
func TestL3_ABridgeThatSucceedsAnotherFollowsNoMainThatWasAnsweredFurther(t *testing.T) {
	lose := func(t *testing.T) (w *world, lost store.Hash) {
		w = newWorld(t)
		w.commit("Add", map[string]string{path("a"): "1"})
		r := w.start()
		r.follows()
		r.answer(path("a"), contract.Applied)
		r.stop()
		saved, _ := w.lastSaved()
		lost = w.commit("Change", map[string]string{path("a"): "2"})
		r = w.start()
		r.follows()
		r.answer(path("a"), contract.Applied)
		w.observes(lost)
		r.stop()

		w.mu.Lock()
		w.saved = saved
		w.mu.Unlock()
		w.remote.ForceHead("main", saved.Accepted)
		w.commit("Elsewhere", map[string]string{path("b"): "1"})
		return w, lost
	}
	t.Run("until it is repaired", func(t *testing.T) {
		w, lost := lose(t)
		r := w.start()
		r.wantHeld("MainRewritten")
		if m := r.Condition().Message; !strings.Contains(m, string(lost)) {
			t.Errorf("message %q", m)
		}
		if v := r.View(); v.Main != nil {
			t.Errorf("main counts at %s", v.Main.Head().Short())
		}
		w.remote.ForceHead("main", lost)
		r.follows()
	})
	t.Run("or a person approves, and that outlives a restart", func(t *testing.T) {
		w, _ := lose(t)
		r := w.start()
		r.wantHeld("MainRewritten")
		if err := r.Approve(t.Context(), w.remote.Head("main")); err != nil {
			t.Fatal(err)
		}
		if v := r.View(); v.Held || v.Main.Head() != w.remote.Head("main") {
			t.Errorf("view = %+v", v)
		}
		// It ends before anything is answered.
		r.stop()
		r = w.start()
		r.follows()
		r.answer(path("a"), contract.Applied)
		r.answer(path("b"), contract.Applied)
		w.observes(w.remote.Head("main"))
	})
}

// observes waits until status says that a commit is answered.
func (w *world) observes(commit store.Hash) {
	w.Helper()
	w.eventually("status answers main", func() bool {
		snap, err := w.remote.Branch("status").Fetch(w.Context())
		return err == nil && statusbranch.Observed(snap).Commit == string(commit)
	})
}
