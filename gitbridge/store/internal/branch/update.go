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
	// maxBatch bounds a push, and so how long the first edit in it waits.
	maxBatch = 2000
	// gatherFor is for how many times as long as the push before took edits that
	// keep coming are gathered, and maxGather bounds it.
	gatherFor = 3
	maxGather = 400 * time.Millisecond
	// conflictTries is how often edits are run again because others were first.
	conflictTries = 60
	// conflictWait is the longest pause between them: who waits longer than a
	// push takes leaves the branch to others.
	conflictWait = 250 * time.Millisecond
	// pushTries is how often the same commits are pushed, and how often the
	// remote is asked what became of them.
	pushTries = 3
	// maxRejections is how many rejections are taken to find the edits of a
	// batch that the remote does not want.
	maxRejections = 32
)

// pending is an edit that waits for its answer.
type pending struct {
	ctx  context.Context
	edit store.Edit
	// from is where the branch begins if it does not exist.
	from *store.Snapshot
	// cut says that the edit's commit is to have no parent.
	cut bool
	// done has room for the one answer, as nobody may be waiting for it.
	done chan answer
}

type answer struct {
	snap *store.Snapshot
	err  error
}

func (p *pending) answer(s *store.Snapshot, err error) {
	select {
	case p.done <- answer{s, err}:
	default:
	}
}

// Update queues an edit, and waits.
func (c *Client) Update(ctx context.Context, e store.Edit) (*store.Snapshot, error) {
	return c.update(&pending{ctx: ctx, edit: e})
}

// UpdateFrom queues an edit of a branch that may not exist, and waits.
func (c *Client) UpdateFrom(ctx context.Context, from *store.Snapshot, e store.Edit) (*store.Snapshot, error) {
	return c.update(&pending{ctx: ctx, edit: e, from: from})
}

// Cut queues an edit that begins a new history, and waits.
func (c *Client) Cut(ctx context.Context, e store.Edit) (*store.Snapshot, error) {
	return c.update(&pending{ctx: ctx, edit: e, cut: true})
}

func (c *Client) update(p *pending) (*store.Snapshot, error) {
	ctx := p.ctx
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	p.done = make(chan answer, 1)
	c.mu.Lock()
	c.queue = append(c.queue, p)
	start := !c.writing
	c.writing = true
	c.mu.Unlock()
	if start {
		// It has no context of ours: others' edits travel with this one.
		go c.write(context.WithoutCancel(ctx))
	}
	select {
	case a := <-p.done:
		return a.snap, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// write pushes until the queue is empty. At most one runs for each branch.
//
// A push costs the host and whoever follows the branch about as much for one edit
// as for many. So where several came while the one before was under way, those
// that follow wait for more of their kind, and pushes take a quarter of the time
// at most; the first edit after a while never waits.
func (c *Client) write(ctx context.Context) {
	var gather time.Duration
	for c.waiting() {
		_ = sleep(ctx, gather)
		// The queue grows meanwhile, and fetches go on.
		unlock, err := c.begin(ctx)
		if err != nil {
			answerAll(c.take(), nil, fmt.Errorf("push: %w", err))
			continue
		}
		_ = c.takeTurn(ctx)
		batch := c.take()
		rejections, began := maxRejections, time.Now()
		c.process(ctx, batch, &rejections)
		gather = 0
		if len(batch) > 1 {
			gather = min(gatherFor*time.Since(began), maxGather)
		}
		c.endTurn()
		unlock()
	}
}

// begin waits until it is time to push.
func (c *Client) begin(ctx context.Context) (unlock func(), err error) {
	if err := c.options.Pace.Rest(ctx); err != nil {
		return nil, err
	}
	if unlock, err = c.options.Pace.Lock(ctx); err != nil {
		return nil, err
	}
	if err := c.options.Pace.Budget(ctx); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// waiting says whether there is something to write, and ends the writing if
// not.
func (c *Client) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = len(c.queue) > 0
	if !c.writing {
		c.queue = nil
	}
	return c.writing
}

// take takes what is to be pushed at once: a cut travels alone, as the commits
// of others would be cut with it.
func (c *Client) take() []*pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), maxBatch)
	if i := slices.IndexFunc(c.queue[:n], func(p *pending) bool { return p.cut }); i >= 0 {
		n = max(i, 1)
	}
	batch := c.queue[:n:n]
	c.queue = c.queue[n:]
	return batch
}

func answerAll(batch []*pending, s *store.Snapshot, err error) {
	for _, p := range batch {
		p.answer(s, err)
	}
}

// process runs edits on the newest tree and pushes, until the remote has them
// or a reason not to is known. A batch that is rejected is divided until the
// edits at fault are alone: theirs must not be the others' error.
func (c *Client) process(ctx context.Context, batch []*pending, rejections *int) {
	wait := backoff.ExponentialBackOff{InitialInterval: 5 * time.Millisecond, Multiplier: 1.7, RandomizationFactor: 0.9, MaxInterval: conflictWait}
	var err error
	for range conflictTries {
		if err = c.options.Pace.Budget(ctx); err != nil {
			break
		}
		var base *store.Snapshot
		if base, err = c.base(ctx, origin(batch)); err != nil {
			break
		}
		var push Push
		old := base.Head()
		if from := origin(batch); old == "" && from != nil {
			base = from
		}
		push, batch = c.prepare(base, batch)
		push.Old = old
		if len(push.Commits) == 0 {
			answerAll(batch, base, nil)
			return
		}
		var landed *store.Snapshot
		if landed, err = c.push(ctx, push); err == nil {
			answerAll(batch, landed, nil)
			return
		}
		if errors.Is(err, store.ErrRejected) {
			*rejections--
			batch, err = c.divide(ctx, batch, rejections, err)
			break
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		_ = sleep(ctx, wait.NextBackOff())
	}
	answerAll(batch, nil, fmt.Errorf("push: %w", err))
}

// divide processes the halves of a batch that was rejected. What it returns is
// still to be answered, with that error.
func (c *Client) divide(ctx context.Context, batch []*pending, rejections *int, err error) ([]*pending, error) {
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

// origin is where the branch begins if it does not exist, if one of its edits
// says so. The others find it created.
func origin(batch []*pending) *store.Snapshot {
	for _, p := range batch {
		if p.from.Head() != "" && p.ctx.Err() == nil {
			return p.from
		}
	}
	return nil
}

// base is the newest tree, by asking the remote only where that is not known.
// What the branch may have begun from need not travel.
func (c *Client) base(ctx context.Context, from *store.Snapshot) (*store.Snapshot, error) {
	c.mu.Lock()
	certain, snap := c.certain, c.snapshot()
	c.mu.Unlock()
	if certain {
		return snap, nil
	}
	if snap.Head() == "" {
		return c.fetchFrom(ctx, from, nil)
	}
	return c.fetch(ctx, nil)
}

func (c *Client) doubt() {
	c.mu.Lock()
	c.certain = false
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
			return c.landed(p), nil
		case errors.Is(err, store.ErrConflict):
			c.doubt()
			// Perhaps it was our own push that was first: unanswered, or brought
			// twice by something on the way.
			landed, doubt := c.find(ctx, p, err)
			if doubt != nil && unknown == nil {
				// It is far more likely that it was somebody else's.
				return nil, err
			}
			return landed, doubt
		case isAnswer(err):
			return nil, err
		}
		unknown = err
		c.doubt()
		if err := c.options.Pace.Rest(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", unknown, err)
		}
		landed, err := c.settle(ctx, p, unknown)
		if err == nil || errors.Is(err, store.ErrConflict) {
			return landed, err
		}
		_ = sleep(ctx, wait.NextBackOff())
	}
	return nil, unknown
}

func isAnswer(err error) bool {
	return errors.Is(err, store.ErrRejected) || errors.Is(err, store.ErrUnauthorized) || errors.Is(err, store.ErrRepositoryNotFound)
}

func (c *Client) landed(p Push) *store.Snapshot {
	c.mu.Lock()
	for _, s := range p.Commits {
		c.commits.add(s.Commit())
	}
	c.mu.Unlock()
	return c.learn(p.New())
}

// settle asks where the branch is after a push without an answer. The error
// is unknown if it is still where it was: the same commits may be pushed again,
// since they cannot land twice.
func (c *Client) settle(ctx context.Context, p Push, unknown error) (*store.Snapshot, error) {
	head, err := c.remote.Head(ctx)
	switch {
	case err != nil, head == p.Old:
		return nil, unknown
	case head == p.New().Head():
		return c.landed(p), nil
	}
	return c.find(ctx, p, fmt.Errorf("%w: after %w", store.ErrConflict, unknown))
}

// find looks for the push's commits below the branch's head. The error is
// otherwise, if they are not there.
func (c *Client) find(ctx context.Context, p Push, otherwise error) (*store.Snapshot, error) {
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
			c.doubt()
		case err != nil:
			return nil, err
		case descends:
			return snap, nil
		default:
			return nil, otherwise
		}
	}
}
