package statusbranch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Settle keeps observed.yaml up to date where no other change takes it along,
// until ctx ends. Errors are told, and tried again with the next change or
// after some time.
func (b *Branch) Settle(ctx context.Context, onError func(error)) {
	const retry = 10 * time.Second
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.dirty:
		case <-timer.C:
		}
		behind, wait := b.behind()
		switch {
		case b.isLong():
			err := b.cut(ctx)
			if ctx.Err() != nil {
				return
			}
			onError(err)
			timer.Reset(retry)
		case !behind:
		case wait > 0:
			timer.Reset(wait)
		default:
			err := b.observeAlone(ctx)
			if ctx.Err() != nil {
				return
			}
			onError(err)
			if err != nil {
				timer.Reset(retry)
			}
		}
	}
}

// Start makes sure that the branch exists and is in the epoch. Where main lacks the
// commit that was answered last, it answers none from then on.
func (b *Branch) Start(ctx context.Context, lacks bool) error {
	if lacks {
		b.mu.Lock()
		b.tracker.Begin()
		b.mu.Unlock()
	}
	return b.update(ctx, true, "status: begin", func(t *store.Tree) (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		present := Observed(t)
		return present.Epoch != b.epoch || lacks && present.Commit != "", nil
	})
}

// behind reports whether more is answered than observed.yaml says, or a higher sequence was
// reached, and how long to wait before it is written alone.
func (b *Branch) behind() (bool, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isBehind(b.observed), b.last.Add(Quiet).Sub(b.now())
}

func (b *Branch) isBehind(o contract.Observed) bool {
	head := b.tracker.Answered()
	isSaid := head == "" || o.Commit == string(head) && o.Epoch == b.epoch
	return b.epoch != "" && (!isSaid || o.Epoch == b.epoch && o.Sequence < b.reached)
}

func (b *Branch) observeAlone(ctx context.Context) error {
	return b.update(ctx, false, "status: main is answered", func(t *store.Tree) (bool, error) {
		present := Observed(t)
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.isBehind(present), nil
	})
}

// History is after how many commits the branch begins a new history, if nothing
// else is said.
const History = 10_000

// isLong reports whether the branch's history is to be cut. Several changes may
// be in one commit, so there are at most as many commits as sequences since Cut.
func (b *Branch) isLong() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.observed.Sequence-b.observed.Cut >= b.history && b.observed.Epoch == b.epoch
}

// cut lets the branch begin a new history: the tree is the same, and so is the epoch.
func (b *Branch) cut(ctx context.Context) error {
	var observed contract.Observed
	_, err := b.git.Cut(ctx, store.Edit{
		Author: author(), Subject: "status: begin a new history, as the old one became long",
		Apply: func(t *store.Tree) error {
			if b.foreign()(Observed(t)) {
				return ErrForeign
			}
			var err error
			observed, err = b.observe(t, false, true)
			return err
		},
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrRejected):
		// The host does not let this branch be replaced: a long history is no
		// harm, and to ask again soon is of no use.
		b.history *= 2
		return nil
	case err != nil:
		return fmt.Errorf("cut the history of status: %w", err)
	}
	b.last = b.now()
	if observed.Epoch == b.epoch && observed.Sequence > b.observed.Sequence {
		b.observed = observed
	}
	return nil
}
