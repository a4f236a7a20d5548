package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
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
		r := w.startAndFollow()
		r.answer(path("a"), contract.Applied)
		r.stop()
		saved, _ := w.lastSaved()
		lost = w.commit("Change", map[string]string{path("a"): "2"})
		r = w.startAndFollow()
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
		r = w.startAndFollow()
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

// slow is a branch whose writers hear late that they have written.
type slow struct {
	store.Branch
	written, proceed chan struct{}
}

func (b *slow) Update(ctx context.Context, e store.Edit) (*store.Snapshot, error) {
	snap, err := b.Branch.Update(ctx, e)
	select {
	case b.written <- struct{}{}:
		<-b.proceed
	default:
	}
	return snap, err
}

// Until a writer hears that, nobody can tell that the branch lacks what it wrote.
func TestAStatusThatIsSetBackBeforeAWriteIsHeardOfIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status := &slow{Branch: w.remote.Branch("status"), written: make(chan struct{}), proceed: make(chan struct{})}
	r := w.startWith(session.Options{Status: status})
	r.follows()
	before := w.remote.Head("status")
	wrote := make(chan error, 1)
	go func() {
		wrote <- r.Write(t.Context(), statusbranch.Change{Path: contract.StatusPath(path("a")), Data: []byte("x"), Subject: "status: x"})
	}()
	<-status.written
	w.remote.ForceHead("status", before)
	w.eventually("it is looked at", func() bool {
		store.Tell(r.wakeStatus, "")
		return r.Status.Snapshot().Head() == before
	})
	close(status.proceed)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	w.eventually("it is seen", func() bool {
		store.Tell(r.wakeStatus, "")
		return r.StatusSetBack() > 0
	})
}

// Of an object that was made, and is missing, only its answer tells that it was there. That may
// be on the host though the bridge was not told so.
func TestAnAnswerThatMayHaveLandedIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	away := errors.New("the host does not answer")
	w.remote.CutAfterPush(away)
	change := statusbranch.Change{Path: contract.StatusPath(path("a")), Data: []byte("x"), Subject: "status: x"}
	if err := r.Write(t.Context(), change); !errors.Is(err, away) {
		t.Fatalf("its answer was acknowledged: %v", err)
	}
	if err := r.CheckStatus(t.Context(), path("a")); !errors.Is(err, away) {
		t.Errorf("without the host: %v", err)
	}
	w.remote.SetFault(nil)
	err := r.CheckStatus(t.Context(), path("a"))
	if _, ok := r.Status.Snapshot().Entry(change.Path); err != nil || !ok {
		t.Errorf("it is not known: %v", err)
	}
}
