package branch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"gitbind.dev/gitbridge/store"
)

const (
	// conflictTries is how often edits are run again because others were first.
	conflictTries = 60
	// maxConflictDelay is the longest pause between them: who waits longer than a
	// push takes leaves the branch to others.
	maxConflictDelay = 250 * time.Millisecond
	// pushTries is how often the same commits are pushed, and how often the
	// remote is asked what became of them.
	pushTries = 3
	// maxRejections is how many rejections are taken to find the edits of a
	// batch that the remote does not want.
	maxRejections = 32
)

// process runs edits on the newest tree and pushes, until the remote has them
// or a reason not to is known. A batch that is rejected is divided until the
// edits at fault are alone: theirs must not be the others' error.
func (c *Client) process(ctx context.Context, batch []*pending, rejections *int) {
	wait := backoff.ExponentialBackOff{InitialInterval: 5 * time.Millisecond, Multiplier: 1.7, RandomizationFactor: 0.9, MaxInterval: maxConflictDelay}
	var err error
	for range conflictTries {
		if err = c.options.Throttle.WaitBudget(ctx); err != nil {
			break
		}
		var base *store.Snapshot
		from, over := origin(batch)
		if base, err = c.base(ctx, from); err != nil {
			break
		}
		if batch, err = c.refuseRewritten(ctx, base, batch); err != nil {
			break
		}
		var push Push
		old := base.Head()
		if from != nil && (old == "" || old == over) {
			base = from
		}
		push, batch = c.prepare(base, batch)
		push.Old = old
		if len(push.Commits) == 0 {
			answerAll(batch, base, nil)
			return
		}
		var landed *store.Snapshot
		if err = checkExtent(base, push.New()); err == nil {
			landed, err = c.push(ctx, push)
		}
		if err == nil {
			answerAll(batch, landed, nil)
			return
		}
		if errors.Is(err, store.ErrRejected) {
			*rejections--
			batch, err = c.bisect(ctx, batch, rejections, err)
			break
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		_ = sleep(ctx, wait.NextBackOff())
	}
	answerAll(batch, nil, fmt.Errorf("push: %w", err))
}

// refuseRewritten answers the edits that were decided on a commit from which a tree's commit
// does not descend, and returns the others.
func (c *Client) refuseRewritten(ctx context.Context, base *store.Snapshot, batch []*pending) ([]*pending, error) {
	// What is known is most often enough, and looked at once for all of them.
	missing := map[store.Hash]bool{}
	for _, p := range batch {
		if since := p.edit.Since; since != "" && since != base.Head() {
			missing[since] = true
		}
	}
	if len(missing) > 0 && base.Head() != "" {
		c.mu.Lock()
		c.commits.walk(base.Head(), func(h store.Hash, _ bool) bool {
			delete(missing, h)
			return len(missing) > 0
		})
		c.mu.Unlock()
	}
	for since := range missing {
		_, descends, err := c.log(ctx, since, base.Head())
		if err != nil && store.LastingLimit(err) == nil {
			c.forgetHead() // It may be another one by now.
			return batch, err
		}
		if descends {
			delete(missing, since)
		}
	}
	if len(missing) == 0 {
		return batch, nil
	}
	return slices.DeleteFunc(batch, func(p *pending) bool {
		if missing[p.edit.Since] {
			p.answer(nil, fmt.Errorf("push: %w: it does not have %s", store.ErrRewritten, p.edit.Since.Short()))
		}
		return missing[p.edit.Since]
	}), nil
}

// checkExtent refuses a tree that nobody would read, unless it is less than before.
func checkExtent(old, new *store.Snapshot) error {
	extent := new.Root().Extent()
	if words := extent.Exceeded(); words != "" && !extent.Shrinks(old.Root().Extent()) {
		return fmt.Errorf("%w: there would be %s", store.ErrRejected, words)
	}
	return nil
}

// bisect processes the halves of a batch that was rejected. What it returns is
// still to be answered, with that error.
func (c *Client) bisect(ctx context.Context, batch []*pending, rejections *int, err error) ([]*pending, error) {
	if len(batch) == 1 {
		return batch, err
	}
	half := len(batch) / 2
	for _, n := range []int{half, len(batch) - half} {
		if *rejections <= 0 {
			// Not wrapped: these edits themselves were not judged.
			return batch, fmt.Errorf("not tried alone, as too much else was refused: %s", err.Error())
		}
		c.process(ctx, batch[:n], rejections)
		batch = batch[n:]
	}
	return nil, nil
}

// origin is where the branch begins if it does not exist, or is at over, if one of its
// edits says so. The others find it so.
func origin(batch []*pending) (from *store.Snapshot, over store.Hash) {
	for _, p := range batch {
		if p.from.Head() != "" && p.ctx.Err() == nil {
			return p.from, p.over
		}
	}
	return nil, ""
}

// base is the newest tree, by asking the remote only where that is not known.
// What the branch may have begun from need not travel.
func (c *Client) base(ctx context.Context, from *store.Snapshot) (*store.Snapshot, error) {
	c.mu.Lock()
	headKnown, snap := c.headKnown, c.snapshot()
	c.mu.Unlock()
	if headKnown {
		return snap, nil
	}
	if snap.Head() == "" {
		return c.fetchFrom(ctx, from, nil)
	}
	return c.fetch(ctx, nil)
}

// forgetHead has the remote asked where the branch is, before anything is built on it.
func (c *Client) forgetHead() {
	c.mu.Lock()
	c.headKnown = false
	c.mu.Unlock()
}

// push pushes, and finds out what became of it if no answer came. It returns
// the snapshot that the remote has.
func (c *Client) push(ctx context.Context, p Push) (*store.Snapshot, error) {
	wait := backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, Multiplier: 3, RandomizationFactor: 0.5, MaxInterval: time.Second}
	var unknown error
	for range pushTries {
		err := c.remote.Push(ctx, p)
		switch {
		case err == nil:
			return c.pushed(p), nil
		case errors.Is(err, store.ErrConflict):
			c.forgetHead()
			// Perhaps it was our own push that was first: unanswered, or brought
			// twice by something on the way.
			landed, doubt := c.findPush(ctx, p, err)
			if doubt != nil && unknown == nil {
				// It is far more likely that it was somebody else's.
				return nil, err
			}
			return landed, doubt
		case isAnswer(err):
			return nil, err
		}
		unknown = err
		c.forgetHead()
		if err := c.options.Throttle.WaitBackoff(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", unknown, err)
		}
		landed, err := c.findOutcome(ctx, p, unknown)
		if err == nil || errors.Is(err, store.ErrConflict) {
			return landed, err
		}
		_ = sleep(ctx, wait.NextBackOff())
	}
	return nil, unknown
}

func isAnswer(err error) bool {
	var notTaken *store.NotTakenError
	return errors.As(err, &notTaken) || errors.Is(err, store.ErrRejected) || errors.Is(err, store.ErrUnauthorized) || errors.Is(err, store.ErrHostKey) || errors.Is(err, store.ErrRepositoryNotFound)
}

// pushed takes what was pushed as the newest.
func (c *Client) pushed(p Push) *store.Snapshot {
	c.mu.Lock()
	for _, s := range p.Commits {
		c.commits.add(s.Commit())
	}
	c.mu.Unlock()
	return c.setSnapshot(p.New())
}

// findOutcome asks where the branch is after a push without an answer. The error
// is unknown if it is still where it was: the same commits may be pushed again,
// since they cannot land twice.
func (c *Client) findOutcome(ctx context.Context, p Push, unknown error) (*store.Snapshot, error) {
	head, err := c.remote.Head(ctx)
	switch {
	case err != nil, head == p.Old:
		return nil, unknown
	case head == p.New().Head():
		return c.pushed(p), nil
	}
	return c.findPush(ctx, p, fmt.Errorf("%w: after %w", store.ErrConflict, unknown))
}

// findPush looks for the push's commits below the branch's head. The error is
// otherwise, if they are not there.
func (c *Client) findPush(ctx context.Context, p Push, otherwise error) (*store.Snapshot, error) {
	for tries := 1; ; tries++ {
		snap, err := c.fetch(ctx, nil)
		if err != nil {
			return nil, err
		}
		if snap.Head() == "" {
			return nil, otherwise
		}
		_, descends, err := c.log(ctx, p.New().Head(), snap.Head())
		switch {
		case errors.Is(err, ErrGone) && tries < fetchTries:
			// It moved on meanwhile.
			c.forgetHead()
		case err != nil:
			return nil, err
		case descends:
			return snap, nil
		default:
			return nil, otherwise
		}
	}
}
