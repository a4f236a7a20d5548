package repository

import (
	"context"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store"
)

// Approved are approvals as they were acted on.
type Approved struct {
	// Main is what was approved as a new begin.
	Main string
	// Removals is the commit whose removals were approved, and RemovalsUpTo when
	// the last delete of an object began that was approved with them, by the API
	// server's clock.
	Removals     string
	RemovalsUpTo time.Time
}

// approvable is how a head of main is named in an approval.
func approvable(head store.Hash) string {
	if head == "" {
		return v1alpha1.ApproveNone
	}
	return string(head)
}

// ApproveMain takes what a person wrote as the commit from which main counts.
// That is acted on once, when main is there; the same words count again only
// after they were taken away in between.
func (r *Repository) ApproveMain(ctx context.Context, words string) error {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	r.mu.Lock()
	done, replaced, head := r.memory.Approved.Main, r.replaced, r.memory.Accepted
	if replaced {
		head = r.replacedBy
	}
	if words == "" && done != "" {
		r.keep(func(m *Memory) { m.Approved.Main = "" })
	}
	r.mu.Unlock()
	status := r.Remote.Status.Snapshot()
	foreign := r.statusReplaced(status) != ""
	if words == "" || words == done || words != approvable(head) || !replaced && !foreign {
		return nil
	}
	now := observedIn(status)
	err := r.decide(ctx, func(m *Memory) {
		m.Approved.Main = words
		if replaced {
			m.Accepted, m.Begun = head, head
		}
		if foreign {
			m.Observed = now
		}
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	if replaced {
		r.replaced, r.replacedBy = false, ""
		r.ancestors = map[store.Hash]bool{}
		r.acceptedTree = nil
		clear(r.recent)
	}
	r.statusJudged = false
	r.mu.Unlock()
	r.tellRecovered()
	r.stateChanged()
	r.Wake()
	return nil
}

// ApproveRemovals takes what a person wrote as the commit whose removals are
// right. It must be part of main.
func (r *Repository) ApproveRemovals(ctx context.Context, words string) error {
	r.mu.Lock()
	done := r.memory.Approved.Removals
	if words == "" && done != "" {
		r.keep(func(m *Memory) { m.Approved.Removals, m.Approved.RemovalsUpTo = "", time.Time{} })
	}
	r.mu.Unlock()
	if words == "" || words == done {
		return nil
	}
	view, err := r.View(ctx)
	if err != nil || view.Replaced != "" {
		return err
	}
	part, err := r.Continues(ctx, store.Hash(words))
	if err != nil || !part && store.Hash(words) != view.Main.Head() {
		return err
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	all, err := r.waiting(ctx, view.Main)
	if err != nil {
		return err
	}
	var upTo time.Time
	for _, w := range all {
		if !w.file && w.Deleted.After(upTo) {
			upTo = w.Deleted
		}
	}
	if err := r.decide(ctx, func(m *Memory) { m.Approved.Removals, m.Approved.RemovalsUpTo = words, upTo }); err != nil {
		return err
	}
	r.judged = nil
	r.tellRecovered()
	r.stateChanged()
	return nil
}

// ApproveUnbinding lets all claims of a binding go, because a person deletes it
// with them; with false, no more.
func (r *Repository) ApproveUnbinding(binding string, yes bool) {
	r.mu.Lock()
	was := r.unbinding[binding]
	if yes {
		r.unbinding[binding] = true
	} else {
		delete(r.unbinding, binding)
	}
	r.mu.Unlock()
	if was == yes {
		return
	}
	r.judging.Lock()
	r.judged = nil
	r.judging.Unlock()
	r.tellRecovered()
	r.stateChanged()
}

// approved reports whether a person has approved a removal as one of many: of a
// file that main lacked at the commit that was approved, or of an object whose
// delete had begun by then.
func (r *Repository) approved(ctx context.Context, main *store.Snapshot, w waiting) (bool, error) {
	r.mu.Lock()
	a := r.memory.Approved
	tree, recent := r.recent[store.Hash(a.Removals)]
	unbinding := r.unbinding[w.Key.Binding]
	r.mu.Unlock()
	switch {
	case unbinding:
		return true, nil
	case a.Removals == "":
		return false, nil
	case !w.file:
		return !w.Deleted.IsZero() && !w.Deleted.After(a.RemovalsUpTo), nil
	}
	// What was not there yet, or was agreed on later, nobody can have looked at.
	if w.Commit == "" {
		return false, nil
	}
	if _, was, err := r.Remote.Main.Log(ctx, w.Commit, store.Hash(a.Removals)); err != nil || !was {
		return false, err
	}
	switch {
	case a.Removals == string(main.Head()):
		return true, nil
	case recent:
		_, there := tree.Entry(w.Key.Path())
		return !there, nil
	}
	// What main held then is not known any more. But this agent removes no file
	// of an object that lives.
	commits, descends, err := r.Remote.Main.Log(ctx, store.Hash(a.Removals), main.Head())
	if err != nil || !descends {
		return false, err
	}
	for _, c := range commits {
		if !r.own(c) {
			return false, nil
		}
	}
	return true, nil
}
