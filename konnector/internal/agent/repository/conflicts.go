package repository

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Keep commits a version that lost a conflict to a branch of its own, which
// begins at a snapshot of main. Keeping it again changes nothing.
func (r *Repository) Keep(ctx context.Context, branch string, main *store.Snapshot, e store.Edit) error {
	if r.Suspended() {
		return ErrSuspended
	}
	_, err := r.Remote.Branch(branch).UpdateFrom(ctx, main, e)
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrRejected) {
		store.Tell(r.wakeMain, "")
	}
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

// maxAuthors is how many authors are named.
const maxAuthors = 3

// Authors are the first of those who made commits on main between two of them,
// other than this cluster's users.
func (r *Repository) Authors(ctx context.Context, since, to store.Hash) ([]string, error) {
	commits, _, err := r.Remote.Main.Log(ctx, since, to)
	if err != nil {
		return nil, err
	}
	_, own := contract.Identity(Committer, r.ClusterID)
	var out []string
	for _, c := range commits {
		if c.Committer.Email != own && !slices.Contains(out, c.Author.Name) && len(out) < maxAuthors {
			out = append(out, c.Author.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}
