package repository

import (
	"context"
	"fmt"

	"gitbind.dev/gitbridge/store"
)

// Keep commits a version that lost a conflict to a branch of its own, which
// begins at a snapshot of main. Keeping it again changes nothing.
func (r *Repository) Keep(ctx context.Context, branch string, main *store.Snapshot, e store.Edit) error {
	_, err := r.push(ctx, func() (*store.Snapshot, error) { return r.Remote.Branch(branch).UpdateFrom(ctx, main, e) })
	if err != nil {
		return fmt.Errorf("keep on %s: %w", branch, err)
	}
	return nil
}

// Kept reads a file of a branch that keeps a version. The error is
// store.ErrNotExist when it is gone.
func (r *Repository) Kept(ctx context.Context, branch, path string) ([]byte, error) {
	if r.Suspended() {
		return nil, ErrSuspended
	}
	s, err := r.Remote.Branch(branch).Fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", branch, err)
	}
	return s.Read(path)
}
