package review

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gitbind.dev/backend/internal/clusterqueue"
	"gitbind.dev/backend/internal/githost"
)

const (
	// roundTimeout bounds how long one cluster's changes are looked at until it is others' turn.
	roundTimeout = time.Minute
	// slowAfter is when changes are looked at again of which one could not be judged in time, or
	// of which something failed as often as the queue tries it.
	slowAfter = 10 * time.Minute
)

// pass is a look at all changes of a cluster, in as many rounds as that takes.
type pass struct {
	// moved says that a branch moved before it began.
	moved bool
	began time.Time
	// from is the branch at which the next round begins, "" for the first one.
	from string
	// slow says that a change could not be judged in time, and errs what else failed.
	slow bool
	errs []error
	// proposed are heads of what a konnector has proposed, by branch.
	proposed map[string]string
}

// look goes on with a cluster's pass, or begins one, when Pace lets it.
func (c *Checks) look(ctx context.Context, cluster string) error {
	if wait := c.Pace.Wait(cluster); wait > 0 {
		return &clusterqueue.LaterError{After: wait}
	}
	ctx = c.Pace.With(ctx, cluster)
	p := c.passOf(cluster)
	continued := p.from != ""
	err := c.check(ctx, cluster, p)
	if errors.As(err, new(*clusterqueue.LaterError)) {
		return err
	}
	c.endPass(cluster, p, continued, err)
	if err != nil && ctx.Err() == nil {
		c.service.Log.WarnContext(ctx, "What the control plane says of changes is not shown on the Git host", "cluster", cluster, "error", err)
	}
	if err != nil && p.moved {
		c.setMoved(cluster)
	}
	return err
}

func (c *Checks) passOf(cluster string) *pass {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.passes[cluster]
	if p == nil {
		p = &pass{moved: c.branches[cluster], began: c.service.Now(), proposed: map[string]string{}}
		c.passes[cluster] = p
		delete(c.branches, cluster)
	}
	return p
}

// endPass has another one begin for what was said of changes that the pass may have looked at
// before, and later for what failed.
func (c *Checks) endPass(cluster string, p *pass, continued bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.passes, cluster)
	if continued && (c.branches[cluster] || c.again[cluster].After(p.began)) {
		c.moved.Add(cluster)
	}
	if p.slow || err != nil && !errors.Is(err, githost.ErrNotFound) {
		c.moved.AddAfter(cluster, slowAfter)
	}
}

// round is one round of a pass.
type round struct {
	*pass
	cluster string
	// before is what changes have shown, and now what they show.
	before, now map[string]told
}

// keep has a change show what it has shown.
func (r *round) keep(branch string) {
	if was, ok := r.before[branch]; ok {
		r.now[branch] = was
	}
}

func (r *round) failed(branch string, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", branch, err))
	r.keep(branch)
}

// judgeFrom looks at the changes from where the round before ended, until its time is over or
// the host was asked enough: then the pass has where the next one begins.
func (c *Checks) judgeFrom(ctx context.Context, r *round, branches []string) {
	ctx, cancel := context.WithTimeout(ctx, c.roundTimeout)
	defer cancel()
	from, first := r.from, true
	r.from = ""
	for _, branch := range branches {
		if branch < from || r.from != "" {
			r.keep(branch)
			continue
		}
		isOver := !first && (ctx.Err() != nil || c.Pace.Wait(r.cluster) > 0)
		var err error
		if !isOver {
			err = c.judgeOne(ctx, r, branch)
			// What failed then was not its fault. One that takes a whole round is not tried again.
			isOver = err != nil && ctx.Err() != nil && !first
		}
		if isOver {
			r.from = branch
			r.keep(branch)
			continue
		}
		first = false
		var late *lateError
		switch {
		case errors.As(err, &late):
			c.service.Log.WarnContext(ctx, "A change cannot be judged in time", "cluster", r.cluster, "branch", branch, "error", err)
			r.slow = true
			r.keep(branch)
		case err != nil:
			// One that cannot be judged stops no other.
			r.failed(branch, err)
		}
	}
}

// lateError says that a change could not be judged in time: to try that at once takes as long.
type lateError struct{ error }

func (e *lateError) Unwrap() error { return e.error }

// judgeOne judges a change and has its head show it.
func (c *Checks) judgeOne(ctx context.Context, r *round, branch string) error {
	was := r.before[branch]
	change, is, err := c.judge(ctx, r.cluster, branch, was)
	if errors.Is(err, context.DeadlineExceeded) {
		return &lateError{err}
	}
	if err != nil {
		return err
	}
	if !r.moved && was.saysAs(is) {
		was.effect, was.awaitedSince = is.effect, is.awaitedSince
		is = was
	}
	if err := c.tellChange(ctx, r.cluster, change, is, r.before[branch], r.proposed); err != nil {
		return err
	}
	if _, pull := githost.PullNumber(branch); !pull {
		is = is.brief()
	}
	r.now[branch] = is
	return nil
}
