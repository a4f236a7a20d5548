package repository

import (
	"context"
	"errors"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/decision"
)

// What was pushed, and not recorded, is taken back wherever its branch is, unless others have
// gone on with it.
func TestAProposalWhoseCommitIsNotKnownIsWithdrawn(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	head := w.put(w.person, "a", "1")
	w.run()
	w.sees(head)
	const branch = "changes/x"
	withdraw := func() error { return w.repo.WithdrawOwn(t.Context(), branch, w.view().Main) }
	propose := func() {
		t.Helper()
		if err := w.proposes(remote, branch, "2"); err != nil {
			t.Fatal(err)
		}
	}
	if err := withdraw(); err != nil {
		t.Errorf("nothing was pushed: %v", err)
	}
	propose()
	if err := withdraw(); err != nil || remote.Head(branch) != "" {
		t.Errorf("pushed: %v, the branch is at %q", err, remote.Head(branch))
	}
	propose()
	reviewer := remote.Branch(branch)
	if _, err := reviewer.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := w.put(reviewer, orders.Path(), "3")
	if err := withdraw(); !errors.Is(err, store.ErrConflict) || remote.Head(branch) != gone {
		t.Errorf("others have gone on: %v", err)
	}
}

// proposes has the konnector propose what the file of a claim says.
func (w *world) proposes(remote *memstore.Remote, branch, content string) error {
	person := remote.Committer
	defer func() { remote.Committer = person }()
	remote.Committer.Name, remote.Committer.Email = contract.ComponentIdentity(contract.Konnector, cluster)
	_, err := w.repo.Propose(w.Context(), branch, "", w.view().Main, store.Edit{
		Author: store.Signature{Name: "alice", Email: "alice@" + contract.ClusterDomain(cluster)}, Subject: "s",
		Trailers: []store.Trailer{{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: orders, UID: "u", Generation: 1}.String()}},
		Apply:    func(tree *store.Tree) error { return tree.Write(orders.Path(), []byte(content)) },
	})
	return err
}

// A Git host that was restored lacks the main that is known, and so names all of history as
// what a branch adds to it.
func TestAnOwnBranchIsNotTakenForOthersWhereTheHostLacksMain(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	backup := w.put(w.person, "a", "1")
	w.run()
	w.sees(backup)
	const branch = "changes/x"
	if err := w.proposes(remote, branch, "2"); err != nil {
		t.Fatal(err)
	}
	old := remote.Head(branch)
	lost := w.put(w.person, "a", "2")
	w.sees(lost)
	remote.ForceHead("main", backup)
	remote.Forget(lost)
	if err := w.proposes(remote, branch, "3"); !errors.Is(err, ErrMoved) || remote.Head(branch) != old {
		t.Errorf("%v, want %v; the branch is at %s, and was at %s", err, ErrMoved, remote.Head(branch), old)
	}
}

func TestWhatMainHasIsNotProposed(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	head := w.put(w.person, orders.Path(), "1")
	w.run()
	w.sees(head)
	_, err := w.repo.Propose(t.Context(), "changes/x", "", w.view().Main, store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "s",
		Apply: func(tree *store.Tree) error { return tree.Write(orders.Path(), []byte("1")) },
	})
	if !errors.Is(err, ErrMoved) {
		t.Errorf("%v, want %v", err, ErrMoved)
	}
}

// A backend that has a copy of the repository may not have seen what was proposed a moment ago.
func TestWhatTheHostHasIsNotLost(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	w.put(w.person, orders.Path(), "1")
	change := remote.Branch("changes/x")
	first := w.put(change, orders.Path(), "2")
	second := w.put(change, orders.Path(), "3")
	w.run()
	w.repo.Remote.Verdict = func(context.Context, string, string) (decision.Verdict, error) {
		return decision.Verdict{State: decision.VerdictLost}, nil
	}
	wants := func(what, branch string, commit store.Hash, want decision.VerdictState) {
		t.Helper()
		if v, err := w.repo.Verdict(t.Context(), branch, string(commit)); err != nil || v.State != want {
			t.Errorf("%s: %s, %v, want %s", what, v.State, err, want)
		}
	}
	wants("the branch is there", "changes/x", second, decision.VerdictUnknown)
	wants("others have gone on", "changes/x", first, decision.VerdictUnknown)
	wants("there is no branch", "changes/y", first, decision.VerdictLost)
	remote.ForceHead("changes/x", first)
	wants("it has gone back", "changes/x", second, decision.VerdictLost)
}
