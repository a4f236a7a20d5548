package branch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/limits"
)

const (
	// maxBatch bounds a push, and so how long the first edit in it waits.
	maxBatch = 2000
	// batchDelayFactor times the duration of the last push is how long edits that keep
	// coming are collected, and maxBatchDelay bounds that.
	batchDelayFactor = 3
	maxBatchDelay    = 400 * time.Millisecond
)

// pending is an edit that waits for its answer.
type pending struct {
	ctx  context.Context
	edit store.Edit
	// from is where the branch begins if it does not exist, or is at over.
	from *store.Snapshot
	over store.Hash
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

// UpdateOver queues an edit of a branch that may be at a commit that from has, and waits.
func (c *Client) UpdateOver(ctx context.Context, over store.Hash, from *store.Snapshot, e store.Edit) (*store.Snapshot, error) {
	return c.update(&pending{ctx: ctx, edit: e, from: from, over: over})
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
// A push costs the host and those who follow the branch about as much for one edit
// as for many. So where several edits came while the last push was under way, the
// next ones are collected for a while, and pushes take a quarter of the time at
// most; the first edit after a while never waits.
func (c *Client) write(ctx context.Context) {
	var delay time.Duration
	for c.hasWork() {
		_ = sleep(ctx, delay)
		// The queue grows meanwhile, and fetches go on.
		unlock, err := c.beginPush(ctx)
		if err != nil {
			answerAll(c.nextBatch(), nil, fmt.Errorf("push: %w", err))
			continue
		}
		_ = c.remoteLock.Acquire(ctx, 1)
		batch := c.nextBatch()
		rejections, began := maxRejections, time.Now()
		c.process(ctx, batch, &rejections)
		delay = 0
		if len(batch) > 1 {
			delay = min(batchDelayFactor*time.Since(began), maxBatchDelay)
		}
		c.remoteLock.Release(1)
		unlock()
	}
}

// beginPush waits until it is time to push.
func (c *Client) beginPush(ctx context.Context) (unlock func(), err error) {
	if err := c.options.Throttle.WaitBackoff(ctx); err != nil {
		return nil, err
	}
	if unlock, err = c.options.Throttle.LockBranch(ctx); err != nil {
		return nil, err
	}
	if err := c.options.Throttle.WaitBudget(ctx); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// hasWork says whether there is something to write, and ends the writing if
// not.
func (c *Client) hasWork() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = len(c.queue) > 0
	if !c.writing {
		c.queue = nil
	}
	return c.writing
}

// nextBatch takes from the queue what is to be pushed at once: a cut travels alone, as the commits
// of others would be cut with it.
func (c *Client) nextBatch() []*pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), maxBatch)
	// All may have one author, and so one message, which others must read.
	for i, size := 0, 0; i < n; i++ {
		if size += messageSize(c.queue[i].edit); size > limits.Message && i > 0 {
			n = i
		}
	}
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
