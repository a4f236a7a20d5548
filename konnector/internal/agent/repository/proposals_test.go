package repository

import (
	"errors"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
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
		person := remote.Committer
		defer func() { remote.Committer = person }()
		remote.Committer.Name, remote.Committer.Email = contract.ComponentIdentity(Committer, cluster)
		_, err := w.repo.Propose(t.Context(), branch, "", w.view().Main, store.Edit{
			Author: store.Signature{Name: "alice", Email: "alice@" + contract.ClusterDomain(cluster)}, Subject: "s",
			Trailers: []store.Trailer{{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: orders, UID: "u", Generation: 1}.String()}},
			Apply:    func(tree *store.Tree) error { return tree.Write(orders.Path(), []byte("2")) },
		})
		if err != nil {
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
