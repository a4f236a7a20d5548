package gitstore

import (
	"context"
	"errors"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/branch"
)

// observed tells an observer of what is exchanged with a remote. Questions for
// the head are told only when they fail, as they come often and say little.
type observed struct {
	branch.Remote
	name string
	tell store.Observer
}

func (o observed) Head(ctx context.Context) (store.Hash, error) {
	began := time.Now()
	head, err := o.Remote.Head(ctx)
	if err != nil && ctx.Err() == nil {
		o.tell.Fetched(o.name, time.Since(began), err)
	}
	return head, err
}

func (o observed) Load(ctx context.Context, tip store.Hash, known *store.Snapshot) (*store.Snapshot, []store.Commit, error) {
	began := time.Now()
	s, commits, err := o.Remote.Load(ctx, tip, known)
	told := err
	if errors.Is(err, branch.ErrGone) {
		told = store.ErrConflict
	}
	if ctx.Err() == nil {
		o.tell.Fetched(o.name, time.Since(began), told)
	}
	return s, commits, err
}

func (o observed) Push(ctx context.Context, p branch.Push) error {
	began := time.Now()
	err := o.Remote.Push(ctx, p)
	o.tell.Pushed(o.name, len(p.Commits), time.Since(began), err)
	return err
}

// announced tells of pushes that the remote has taken.
type announced struct {
	branch.Remote
	name string
	tell func(branch string, head store.Hash)
}

func (a announced) Push(ctx context.Context, p branch.Push) error {
	err := a.Remote.Push(ctx, p)
	if err == nil {
		a.tell(a.name, p.New().Head())
	}
	return err
}
