package claim

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/semaphore"
)

// work calls do for what is in the queue, for as many requests as most at once, until ctx
// ends and all calls have returned. Each app cluster has its own, so that none waits for
// another's host. That is why each request has a goroutine that ends with it: the workers
// of controller-runtime keep their stacks while they are idle.
//
// Each request counts against lookLimit, which all app clusters share, until it calls release:
// it does so before it waits for anybody. App clusters come one after the other, as each waits
// with one request at a time.
func work(ctx context.Context, queue *Queue, most int, lookLimit *semaphore.Weighted, do func(ctx context.Context, r Request, release func())) {
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, most)
	for {
		// A request is taken out of the queue only when it can begin: something urgent that
		// comes meanwhile goes first.
		slots <- struct{}{}
		r, shutdown := queue.Get()
		if shutdown {
			return
		}
		if lookLimit.Acquire(ctx, 1) != nil {
			queue.Done(r)
			return
		}
		release := sync.OnceFunc(func() { lookLimit.Release(1) })
		running.Go(func() {
			defer func() { <-slots }()
			defer queue.Done(r)
			defer release()
			do(ctx, r, release)
		})
	}
}

// reconcile answers one path, and has it looked at again when that is needed. A panic
// stops neither the other paths nor the other app clusters.
func (c *Controller) reconcile(ctx context.Context, r Request, release func()) {
	defer func() {
		if p := recover(); p != nil {
			c.Log.Error(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), "A path is tried again", "cluster", c.Session.Cluster.ID, "path", r.Path)
			c.queue.AddRateLimited(r)
		}
	}()
	wait := c.bringPath(ctx, r, release)
	c.queue.Forget(r)
	if wait > 0 {
		c.queue.AddAfter(r, wait)
	}
}
