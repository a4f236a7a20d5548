// Package memory shares out the memory that one process has for what others pushed:
// each repository has limits of its own, and those of many add up. It counts what it
// is told of, and takes no memory itself.
package memory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy says that others have the memory. Trying again later is right.
var ErrBusy = errors.New("the memory for reading repositories is in use by others: it is tried again")

const (
	// Small is how many bytes each read may have without waiting for anybody: what
	// changes from one look to the next needs no more.
	Small = 256 << 10
	// maxWait is how long a read waits for memory, holding what it has, and maxLarge how
	// long the one that has more than its share keeps others waiting.
	maxWait  = 20 * time.Second
	maxLarge = 30 * time.Second
)

// Budget is memory that many reads share. When it is used up, one read at a time may
// have more, up to its own limits, so that there is always one that ends. Those that
// have least go first: a small repository does not wait for the large ones.
type Budget struct {
	size int64

	mu      sync.Mutex
	used    int64
	large   *Claim
	overdue bool
	waiting []*waiter
}

type waiter struct {
	claim   *Claim
	bytes   int64
	granted chan struct{}
}

// NewBudget is a budget of so many bytes.
func NewBudget(size int64) *Budget { return &Budget{size: size} }

// Claim is what one read has of a Budget.
type Claim struct {
	budget *Budget
	ctx    context.Context
	cancel context.CancelCauseFunc
	// small is what it has beside the budget, shared of it, and more beyond it.
	small, shared, more int64
	timer               *time.Timer
}

// Claim begins a read. The context is its own: it ends with ErrBusy when the read has
// kept others waiting for too long. Release must be called when what was read is not
// held any more.
func (b *Budget) Claim(ctx context.Context) (context.Context, *Claim) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &Claim{budget: b, ctx: ctx, cancel: cancel}
}

// Take claims so many bytes more, before they are allocated. It may wait; the error is
// ErrBusy, or the context's.
func (c *Claim) Take(bytes int64) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if c.small+bytes <= Small {
		c.small += bytes
		return nil
	}
	b := c.budget
	b.mu.Lock()
	if b.grant(c, bytes) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{c, bytes, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	if b.overdue {
		b.large.cancel(ErrBusy)
	}
	b.mu.Unlock()

	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	err := ErrBusy
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return nil // granted in the same moment
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return err
}

// grant gives bytes, if they are there. The caller holds mu.
func (b *Budget) grant(c *Claim, bytes int64) bool {
	switch {
	case b.large == c:
		c.more += bytes
	case b.used+bytes <= b.size:
		b.used += bytes
		c.shared += bytes
	case b.large == nil:
		b.large = c
		c.more += bytes
		c.timer = time.AfterFunc(maxLarge, func() { b.isOverdue(c) })
	default:
		return false
	}
	return true
}

// isOverdue ends the read that has more than its share, if others wait for it.
func (b *Budget) isOverdue(c *Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.large != c {
		return
	}
	b.overdue = true
	if len(b.waiting) > 0 {
		c.cancel(ErrBusy)
	}
}

// Release gives all back.
func (c *Claim) Release() {
	b := c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	c.cancel(nil)
	b.used -= c.shared
	if b.large == c {
		c.timer.Stop()
		b.large, b.overdue = nil, false
	}
	c.small, c.shared, c.more = 0, 0, 0
	slices.SortStableFunc(b.waiting, func(v, w *waiter) int { return int(v.claim.shared - w.claim.shared) })
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if !b.grant(w.claim, w.bytes) {
			return false
		}
		close(w.granted)
		return true
	})
}

// Shares is memory that is kept for long: half of it belongs to all alike, and the
// other half to those who need more. So nobody with little is refused because of
// others who have much.
type Shares struct {
	size int64

	mu   sync.Mutex
	held map[*Share]int64
}

// Share is what one of them has.
type Share struct{ shares *Shares }

// NewShares shares out so many bytes.
func NewShares(size int64) *Shares { return &Shares{size: size, held: map[*Share]int64{}} }

// Share is a new one, which has nothing.
func (s *Shares) Share() *Share { return &Share{s} }

// Set says how many bytes one has from now on, in place of what it had. Where that is
// too much it keeps what it had, and ok is false.
func (s *Share) Set(bytes int64) (ok bool) {
	all := s.shares
	all.mu.Lock()
	defer all.mu.Unlock()
	was, known := all.held[s]
	all.held[s] = bytes
	own := all.size / 2 / int64(len(all.held))
	if bytes <= own || bytes <= was {
		return true
	}
	beyond := int64(0)
	for _, held := range all.held {
		beyond += max(0, held-own)
	}
	if beyond <= all.size/2 {
		return true
	}
	if all.held[s] = was; !known {
		delete(all.held, s)
	}
	return false
}

// Force is Set for what cannot be refused any more.
func (s *Share) Force(bytes int64) {
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	s.shares.held[s] = bytes
}

// Release gives all back.
func (s *Share) Release() {
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	delete(s.shares.held, s)
}
