package claim

import (
	"context"
	"sync"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/statusbranch"
)

// maxAside is how many refusals are written at once, beside the workers.
const maxAside = 1000

// asides are the answers under way to files that are refused for what is in
// them. Nothing but the answer is to be done with such a file, and until the
// host has that takes a moment: a folder full of them does not keep the workers
// from what comes behind it, and goes to status in few commits.
type asides struct {
	places chan struct{}
	wait   sync.WaitGroup

	mu sync.Mutex
	// again says of each path under way whether it was to be looked at meanwhile.
	again map[string]bool
}

func newAsides() *asides {
	return &asides{places: make(chan struct{}, maxAside), again: map[string]bool{}}
}

// isBusy reports whether a path's answer is under way. If so, it is looked at
// when that is over, as one path is worked on once at a time.
func (a *asides) isBusy(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.again[path]; !ok {
		return false
	}
	a.again[path] = true
	return true
}

func (a *asides) begin(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.again[path] = false
}

func (a *asides) end(path string) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again = a.again[path]
	delete(a.again, path)
	return again
}

// writeAside has an answer written, and returns before it is. What fails is
// looked at again.
func (c *Controller) writeAside(ctx context.Context, s *step, change statusbranch.Change, answer *contract.Status) error {
	select {
	case c.asides.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	path := s.Path
	c.asides.begin(path)
	c.asides.wait.Go(func() {
		defer func() { <-c.asides.places }()
		err := c.Session.Answer(ctx, s.view, change)
		if err == nil {
			c.limiter.Forget(path)
			c.Session.Answered(path, answer)
		}
		switch again := c.asides.end(path); {
		case again:
			c.queue.Enqueue(path, true)
		case err != nil:
			c.queue.AddAfter(Request{Path: path}, c.retry(ctx, path, err))
		}
	})
	return nil
}
