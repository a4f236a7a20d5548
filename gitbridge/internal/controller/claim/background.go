package claim

import (
	"context"
	"sync"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/statusbranch"
)

// maxInBackground is how many refusals are written at once, beside the workers.
const maxInBackground = 1000

// backgroundAnswers are the answers under way to files that are refused for what is in
// them. Nothing but the answer is to be done with such a file, and until the
// host has that takes a moment: a folder full of them does not keep the workers
// from what comes behind it, and goes to status in few commits.
type backgroundAnswers struct {
	places chan struct{}
	wait   sync.WaitGroup

	mu sync.Mutex
	// again says of each path under way whether it was to be looked at meanwhile.
	again map[string]bool
}

func newBackgroundAnswers() *backgroundAnswers {
	return &backgroundAnswers{places: make(chan struct{}, maxInBackground), again: map[string]bool{}}
}

// isBusy reports whether a path's answer is under way. If so, it is looked at
// when that is over, as one path is worked on once at a time.
func (a *backgroundAnswers) isBusy(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.again[path]; !ok {
		return false
	}
	a.again[path] = true
	return true
}

func (a *backgroundAnswers) begin(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.again[path] = false
}

func (a *backgroundAnswers) end(path string) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again = a.again[path]
	delete(a.again, path)
	return again
}

// answerInBackground has an answer written, and returns before it is. What fails is
// looked at again.
func (c *Controller) answerInBackground(ctx context.Context, s *step, change statusbranch.Change, answer *contract.Status) error {
	select {
	case c.background.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	path := s.Path
	c.background.begin(path)
	c.background.wait.Go(func() {
		defer func() { <-c.background.places }()
		err := c.Session.Answer(ctx, s.view, change)
		if err == nil {
			c.limiter.Forget(path)
			c.Session.Answered(path, answer)
		}
		switch again := c.background.end(path); {
		case again:
			c.queue.Enqueue(path, true)
		case err != nil:
			c.queue.AddAfter(Request{Path: path}, c.retry(ctx, path, err))
		}
	})
	return nil
}
