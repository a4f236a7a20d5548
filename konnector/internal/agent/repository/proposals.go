package repository

import (
	"context"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

// Propose commits an edit to a branch, which begins at a snapshot of main where it does not
// exist. The same edit made again changes nothing.
func (r *Repository) Propose(ctx context.Context, branch string, main *store.Snapshot, e store.Edit) (*store.Snapshot, error) {
	if r.Suspended() {
		return nil, ErrSuspended
	}
	return r.push(ctx, func() (*store.Snapshot, error) { return r.Remote.Branch(branch).UpdateFrom(ctx, main, e) })
}

// Withdraw removes a branch that is at a commit. The error is store.ErrConflict where others
// have gone on from there, and store.ErrRejected where the Git host keeps it.
func (r *Repository) Withdraw(ctx context.Context, branch string, at store.Hash) error {
	if r.Suspended() {
		return ErrSuspended
	}
	return r.Remote.Branch(branch).Remove(ctx, at)
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
	return r.Remote.Verdict(ctx, branch, commit)
}
