// Package clusterqueue has work done for clusters, such as fetching from their
// repositories: each cluster's once at a time, and again for a while where it fails.
package clusterqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// maxTries is how often work that fails is tried again, within some seconds.
const maxTries = 10

// LaterError says that there is more work for a cluster, and nothing has failed: it is done after
// so long, and where that is none, after what waits for others.
type LaterError struct{ After time.Duration }

func (e *LaterError) Error() string { return "it is done after " + e.After.String() }

// Queue holds the clusters that there is work for.
type Queue struct {
	workers int
	do      func(ctx context.Context, cluster string) error
	queue   workqueue.TypedRateLimitingInterface[string]
}

// New is a queue for so many workers. Do does a cluster's work, and says itself what
// went wrong: the error only has it tried again, or gone on with if it is a LaterError.
func New(workers int, do func(ctx context.Context, cluster string) error) *Queue {
	return &Queue{workers: workers, do: do, queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())}
}

// Add says that there is work for a cluster. It does not block.
func (q *Queue) Add(cluster string) { q.queue.Add(cluster) }

// AddAfter says that there will be work for a cluster after so long. It does not block.
func (q *Queue) AddAfter(cluster string, after time.Duration) { q.queue.AddAfter(cluster, after) }

// Run works until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, q.queue.ShutDown)()
	var workers sync.WaitGroup
	for range q.workers {
		workers.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	workers.Wait()
}

// next reports false when there will be no more.
func (q *Queue) next(ctx context.Context) bool {
	cluster, ended := q.queue.Get()
	if ended {
		return false
	}
	defer q.queue.Done(cluster)
	var later *LaterError
	switch err := q.do(ctx, cluster); {
	case errors.As(err, &later):
		q.queue.AddAfter(cluster, later.After)
	case err == nil || q.queue.NumRequeues(cluster) >= maxTries:
		q.queue.Forget(cluster)
	default:
		q.queue.AddRateLimited(cluster)
	}
	return true
}
