package repository

import (
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

func (w *world) observe(o guard.Observed) {
	w.Helper()
	data, err := contract.EncodeObserved(contract.Observed{Commit: string(w.remote.Head("main")), Epoch: o.Epoch, Sequence: o.Sequence})
	if err != nil {
		w.Fatal(err)
	}
	w.put(w.bridge, contract.ObservedPath, string(data))
	w.repo.Wake()
}

func (w *world) statusIs(replaced bool) {
	w.Helper()
	w.until("status is seen", func() bool { return w.view().Status.Head() == w.remote.Head("status") })
	if got := w.view().StatusReplaced; (got != "") != replaced {
		w.Fatalf("replaced: %q, want %v", got, replaced)
	}
	w.until("it is told", func() bool { return (w.repo.Health().StatusReplaced != "") == replaced })
}

// A claim may wait for a commit that changes no file, and for the control plane to see it.
func TestWhatTheControlPlaneSawIsToldOnceMoreWhenMainComes(t *testing.T) {
	for name, further := range map[string]bool{"as far as it saw": false, "further": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "", memstore.New())
			w.put(w.person, orders.Path(), "1")
			w.run()
			w.until("contact", func() bool { return w.repo.Health().Contacted })
			told := func() (times int) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, c := range w.changes {
					if c.Observed {
						times++
					}
				}
				return times
			}
			head := w.put(w.person, "README.md", "no claim")
			data, err := contract.EncodeObserved(contract.Observed{Commit: string(head), Epoch: "e1", Sequence: 1})
			if err != nil {
				t.Fatal(err)
			}
			w.repo.moved("refs/heads/status", w.put(w.bridge, contract.ObservedPath, string(data)))
			w.until("status is told", func() bool { return told() == 1 })
			if further {
				head = w.put(w.person, "README.md", "no claim either")
			}
			w.repo.moved("refs/heads/main", head)
			w.until("main is told", func() bool { return told() == 2 })
		})
	}
}

func TestStatusThatWentBackOrIsAnotherIsNotTrusted(t *testing.T) {
	remote := memstore.New()
	w := newWorldWith(t, Checkpoint{Observed: seenAt("e1", 5)}, remote)
	head := w.put(w.person, "a", "1")
	w.observe(seenAt("e1", 5))
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.statusIs(false)
	w.observe(seenAt("e1", 9))
	w.statusIs(false)
	old := remote.Head("status")
	w.observe(seenAt("e1", 10))
	w.statusIs(false)

	remote.ForceHead("status", old)
	w.repo.Wake()
	w.statusIs(true)
	w.observe(seenAt("e1", 11))
	w.statusIs(false)

	remote.ForceHead("status", "")
	w.repo.Wake()
	w.statusIs(true)
	w.bridge = remote.Branch("status")
	w.observe(seenAt("e2", 100))
	w.statusIs(true)
	if err := w.repo.ApproveMain(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	w.statusIs(true)
	if err := w.repo.ApproveMain(t.Context(), string(head)); err != nil {
		t.Fatal(err)
	}
	w.statusIs(false)
	if got := w.lastSaved(); got.Observed != seenAt("e2", 100) || got.Approved.Main != string(head) {
		t.Errorf("saved: %+v", got)
	}
	// Once is once.
	w.observe(seenAt("e3", 200))
	w.statusIs(true)
	if err := w.repo.ApproveMain(t.Context(), string(head)); err != nil {
		t.Fatal(err)
	}
	w.statusIs(true)
	// Taken away and given again it is another decision.
	for _, words := range []string{"", string(head)} {
		if err := w.repo.ApproveMain(t.Context(), words); err != nil {
			t.Fatal(err)
		}
	}
	w.statusIs(false)
}

// The branches of a repository that was replaced are seen one after the other, and who approves
// main in between has seen neither.
func TestAnApprovalOfMainIsOneOfTheStatusThatCameWithIt(t *testing.T) {
	remote := memstore.New()
	w := newWorldWith(t, Checkpoint{Accepted: "1111111111111111111111111111111111111111", Observed: seenAt("e1", 5)}, remote)
	w.observe(seenAt("e1", 5))
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.statusIs(false)

	w.bridge = remote.Branch("status")
	data, err := contract.EncodeObserved(contract.Observed{Commit: "2222222222222222222222222222222222222222", Epoch: "e2", Sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.put(w.bridge, contract.ObservedPath, string(data))
	head := w.put(w.person, "a", "1")
	store.Tell(w.repo.wakeMain, head)
	w.until("main is seen to be another one", func() bool { return w.repo.Health().Replaced != "" && w.view().Main.Head() == head })
	if err := w.repo.ApproveMain(t.Context(), string(head)); err != nil {
		t.Fatal(err)
	}
	if v := w.view(); v.Replaced != "" {
		t.Errorf("main is not approved: %s", v.Replaced)
	}
	w.repo.Wake()
	w.statusIs(false)
	if got := w.lastSaved(); got.Accepted != head || got.Observed != seenAt("e2", 1) {
		t.Errorf("saved: %+v", got)
	}
}

// lagging has its first Snapshot wait until another one was looked at.
type lagging struct {
	store.Branch
	meanwhile func()
}

func (b *lagging) Snapshot() *store.Snapshot {
	s := b.Branch.Snapshot()
	if meanwhile := b.meanwhile; meanwhile != nil {
		b.meanwhile = nil
		meanwhile()
	}
	return s
}

// Another look may see a newer status first: the one before is no backup then.
func TestStatusThatMovesOnDuringALookDidNotGoBack(t *testing.T) {
	w := newWorldWith(t, Checkpoint{Observed: seenAt("e1", 5)}, memstore.New())
	w.put(w.person, "a", "1")
	w.observe(seenAt("e1", 6))
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.statusIs(false)
	status := &lagging{Branch: w.repo.Remote.Status}
	w.repo.status.branch = status
	status.meanwhile = func() {
		w.observe(seenAt("e1", 7))
		w.until("it is seen", func() bool { return status.Branch.Snapshot().Head() == w.remote.Head("status") })
		w.view()
	}
	if v := w.view(); v.StatusReplaced != "" || v.Status.Head() != w.remote.Head("status") {
		t.Errorf("replaced: %s", v.StatusReplaced)
	}
}

// An approval that was acted on must not let the same commit pass when a backup
// brings it back.
func TestApprovalOfMainCountsOnce(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	first := w.put(w.person, "a", "1")
	w.put(w.person, "a", "2")
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	back := func() {
		remote.ForceHead("main", first)
		w.repo.Wake()
		w.until("it is held", func() bool { return w.repo.Health().Replaced != "" })
	}
	approve := func() {
		if err := w.repo.ApproveMain(t.Context(), string(first)); err != nil {
			t.Fatal(err)
		}
	}
	back()
	approve()
	if words := w.view().Replaced; words != "" {
		t.Fatal(words)
	}
	w.person = remote.Branch("main")
	w.sees(w.put(w.person, "a", "3"))
	back()
	approve()
	if w.view().Replaced == "" {
		t.Error("yesterday's approval counted again")
	}
}

func TestMainThatIsGoneCanBeApproved(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	w.put(w.person, "a", "1")
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.view()
	remote.ForceHead("main", "")
	w.repo.Wake()
	w.until("it is held", func() bool { return w.repo.Health().Replaced != "" })
	if err := w.repo.ApproveMain(t.Context(), "none"); err != nil {
		t.Fatal(err)
	}
	if words := w.view().Replaced; words != "" {
		t.Error(words)
	}
	if _, err := w.repo.Update(t.Context(), store.Edit{Subject: "s", Apply: func(t *store.Tree) error { return t.Write("a", []byte("1")) }}); err != nil {
		t.Error(err)
	}
}

func TestServes(t *testing.T) {
	for _, tc := range []struct {
		namespaces []string
		namespace  string
		want       bool
	}{
		{nil, "team-a", true},
		{[]string{"team-a"}, "team-a", true},
		{[]string{"team-a"}, "team-ab", false},
		{[]string{"prod", "team-*"}, "team-ab", true},
		{[]string{"*-prod"}, "a-prod", true},
		{[]string{"*-prod"}, "a-prod-2", false},
	} {
		r := New(Options{Namespaces: tc.namespaces})
		if got := r.Serves(tc.namespace); got != tc.want {
			t.Errorf("%v serves %s: %v", tc.namespaces, tc.namespace, got)
		}
	}
}

func seenAt(epoch string, sequence int64) guard.Observed {
	return guard.Observed{Epoch: epoch, Sequence: sequence}
}
