package repository

import (
	"context"
	"errors"
	"slices"

	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

// Propose commits an edit to a branch. Known is the commit of what was proposed there
// before, if the edit is to follow that, and "" otherwise. The edit follows what the branch
// has where that is known, or where others have committed to it. Otherwise it begins at a
// snapshot of main: where there is no branch, where main has all of it, and where only this
// agent's commits are on it: what they stand on, main may not say any more. Such a branch
// is removed first.
//
// It opens no pull request: on a Git host that has them the backend does, when it is told
// of the branch (Checks in backend/internal/review).
//
// The error is ErrMoved when main has the commit that the branch is at then, and that of isOwn.
func (r *Repository) Propose(ctx context.Context, branch string, known store.Hash, main *store.Snapshot, e store.Edit) (*store.Snapshot, error) {
	if err := r.MayWrite(); err != nil {
		return nil, err
	}
	b := r.Remote.Branch(branch)
	merged, err := r.removeStale(ctx, b, known, main)
	if err != nil {
		return nil, err
	}
	s, err := r.push(ctx, func() (*store.Snapshot, error) { return b.UpdateOver(ctx, merged, main, e) })
	if err != nil {
		return nil, err
	}
	// What main has is no proposal: nothing waits for an approval.
	has, err := r.Lineage.Continues(ctx, s.Head())
	if err == nil && has {
		err = ErrMoved
	}
	return s, err
}

// removeStale removes a branch that only this agent has committed to, unless it is at known
// or main has it. In that last case the commit it is at is returned: the branch may begin
// again over it. It is "" otherwise.
func (r *Repository) removeStale(ctx context.Context, b store.Branch, known store.Hash, main *store.Snapshot) (merged store.Hash, err error) {
	s, err := b.Fetch(ctx)
	if err != nil {
		return "", err
	}
	head := s.Head()
	if head == "" || head == known {
		return "", nil
	}
	if has, err := r.Lineage.Continues(ctx, head); err != nil || has {
		return head, err
	}
	if err := r.removeOwn(ctx, b, main, head); !IsKept(err) {
		return "", err
	}
	return "", nil
}

// removeOwn removes a branch that is at a head, if nobody else has committed to it beyond a
// snapshot of main. The error is one that IsKept knows where it stays, or that of isOwn.
func (r *Repository) removeOwn(ctx context.Context, b store.Branch, main *store.Snapshot, head store.Hash) error {
	own, err := r.isOwn(ctx, b, main, head)
	if err != nil {
		return err
	}
	if !own {
		return store.ErrConflict
	}
	return b.Remove(ctx, head)
}

// isOwn reports whether nobody else made a commit of a branch that main does not have. The
// error is ErrMoved where the Git host lacks that main, as when it was restored from a backup:
// then it names all of history, and whose the branch is cannot be told.
func (r *Repository) isOwn(ctx context.Context, b store.Branch, main *store.Snapshot, head store.Hash) (bool, error) {
	commits, _, err := b.Log(ctx, main.Head(), head)
	if store.LastingLimit(err) != nil {
		return false, nil
	}
	isForeign := func(c guard.Commit) bool { return !c.Konnector }
	if err != nil || !slices.ContainsFunc(r.Lineage.main.Commits(commits), isForeign) {
		return err == nil, err
	}
	now, err := r.Lineage.main.Fetch(ctx)
	if err != nil {
		return false, err
	}
	has, _, err := r.Lineage.descends(ctx, main.Head(), now)
	if err == nil && !has {
		err = ErrMoved
	}
	return false, err
}

// IsKept reports whether a branch could not be removed, because others have gone on with it
// or because the Git host keeps it.
func IsKept(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrRejected)
}

// Withdraw removes a branch that is at a commit. The error is store.ErrConflict where others
// have gone on from there, and store.ErrRejected where the Git host keeps it.
func (r *Repository) Withdraw(ctx context.Context, branch string, at store.Hash) error {
	if err := r.MayWrite(); err != nil {
		return err
	}
	return r.Remote.Branch(branch).Remove(ctx, at)
}

// WithdrawOwn removes a branch wherever it is, if nobody else has committed to it beyond a
// snapshot of main. Otherwise the error is store.ErrConflict, and as that of Withdraw.
func (r *Repository) WithdrawOwn(ctx context.Context, branch string, main *store.Snapshot) error {
	if err := r.MayWrite(); err != nil {
		return err
	}
	b := r.Remote.Branch(branch)
	s, err := b.Fetch(ctx)
	if err != nil || s.Head() == "" {
		return err
	}
	return r.removeOwn(ctx, b, main, s.Head())
}

// Verdict asks what became of a commit that was proposed on a branch. Where nobody can be
// asked it is decision.VerdictUnknown.
func (r *Repository) Verdict(ctx context.Context, branch, commit string) (decision.Verdict, error) {
	switch {
	case r.Suspended():
		return decision.Verdict{}, ErrSuspended
	case r.Remote.Verdict == nil:
		return decision.Verdict{State: decision.VerdictUnknown}, nil
	}
	v, err := r.Remote.Verdict(ctx, branch, commit)
	if err == nil && v.State == decision.VerdictLost {
		// The backend may only be late: it may have a copy of the repository.
		var has bool
		if has, err = r.hasProposed(ctx, branch, commit); has {
			v = decision.Verdict{State: decision.VerdictUnknown}
		}
	}
	return v, err
}

// hasProposed reports whether a branch has a commit.
func (r *Repository) hasProposed(ctx context.Context, branch, commit string) (bool, error) {
	b := r.Remote.Branch(branch)
	s, err := b.Fetch(ctx)
	if err != nil || s.Head() == "" {
		return false, err
	}
	_, has, err := b.Log(ctx, store.Hash(commit), s.Head())
	return has, err
}
