package claim

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// work calls do for what is in the queue, for as many requests as most at once, until ctx
// ends and all calls have returned. Each app cluster has its own, so that none waits for
// another's host. That is why each request has a goroutine that ends with it: the workers
// of controller-runtime keep their stacks while they are idle.
func work(ctx context.Context, queue *Queue, most int, do func(context.Context, Request)) {
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
		running.Go(func() {
			defer func() { <-slots }()
			defer queue.Done(r)
			do(ctx, r)
		})
	}
}

// reconcile answers one path, and has it looked at again when that is needed. A panic
// stops neither the other paths nor the other app clusters.
func (c *Controller) reconcile(ctx context.Context, r Request) {
	defer func() {
		if p := recover(); p != nil {
			c.Log.Error(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), "A path is tried again", "cluster", c.Session.Cluster.ID, "path", r.Path)
			c.queue.AddRateLimited(r)
		}
	}()
	wait := c.bringPath(ctx, r)
	c.queue.Forget(r)
	if wait > 0 {
		c.queue.AddAfter(r, wait)
	}
}
