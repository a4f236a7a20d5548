package statusbranch

import (
	"context"
	"time"

	"gitbind.dev/gitbridge/claim"
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

// Start makes sure that the branch exists and is in the epoch.
func (b *Branch) Start(ctx context.Context) error {
	return b.update(ctx, true, "status: begin", func(t *store.Tree) (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return Observed(t).Epoch != b.epoch, nil
	})
}

// behind reports whether more is answered than observed.yaml says, and how long
// to wait before it is written alone.
func (b *Branch) behind() (bool, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isBehind(b.observed), b.last.Add(Quiet).Sub(b.now())
}

func (b *Branch) isBehind(o claim.Observed) bool {
	head := b.tracker.Answered()
	return head != "" && b.epoch != "" && (o.Commit != string(head) || o.Epoch != b.epoch)
}

func (b *Branch) observeAlone(ctx context.Context) error {
	return b.update(ctx, false, "status: main is answered", func(t *store.Tree) (bool, error) {
		present := Observed(t)
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.isBehind(present), nil
	})
}
