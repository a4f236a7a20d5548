package claim

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Queue holds the paths to look at. What just changed goes before what is only
// to be checked, so that a restart with many claims does not keep new ones
// waiting.
type Queue struct {
	workqueue.TypedRateLimitingInterface[Request]
	order *order
	// usages are bindings of which it is to be published how much of a quota is used.
	usages workqueue.TypedDelayingInterface[string]
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	o := &order{urgent: map[Request]bool{}, since: map[Request]time.Time{}}
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Request]{Name: "claim", Queue: o})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Request]{Name: "claim", Queue: queue})
	return &Queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Request](retryFirst, retryLast),
			workqueue.TypedRateLimitingQueueConfig[Request]{Name: "claim", DelayingQueue: delaying},
		),
		order:  o,
		usages: workqueue.NewTypedDelayingQueue[string](),
	}
}

// Enqueue has a path looked at.
func (q *Queue) Enqueue(path string, urgent bool) {
	r := Request{Path: path}
	if urgent {
		q.order.hurry(r)
	}
	q.Add(r)
}

// changedAt says since when it is known that something just changed, zero if
// nothing did, and takes note that it was asked.
func (q *Queue) changedAt(path string) time.Time {
	q.order.mu.Lock()
	defer q.order.mu.Unlock()
	at := q.order.since[Request{Path: path}]
	delete(q.order.since, Request{Path: path})
	return at
}

// notYet takes back what changedAt noted: it was not dealt with.
func (q *Queue) notYet(path string, at time.Time) {
	q.order.mu.Lock()
	defer q.order.mu.Unlock()
	if !at.IsZero() {
		q.order.since[Request{Path: path}] = at
	}
}

// order is in which order a queue gives out what is in it.
type order struct {
	mu sync.Mutex
	// urgent are those that go first once they are in the queue.
	urgent      map[Request]bool
	first, rest []Request
	// since is when something changed that was not dealt with.
	since map[Request]time.Time
}

func (o *order) hurry(r Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.urgent[r] = true
	if _, ok := o.since[r]; !ok {
		o.since[r] = time.Now()
	}
}

// Touch is told of what was added though it is in the queue.
func (o *order) Touch(r Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.urgent[r] {
		return
	}
	delete(o.urgent, r)
	if i := slices.Index(o.rest, r); i >= 0 {
		o.rest = slices.Delete(o.rest, i, i+1)
		o.first = append(o.first, r)
	}
}

// Push puts into the queue what is not there.
func (o *order) Push(r Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// What could not be dealt with when it changed must not wait behind others.
	if _, undone := o.since[r]; undone || o.urgent[r] {
		delete(o.urgent, r)
		o.first = append(o.first, r)
		return
	}
	o.rest = append(o.rest, r)
}

// Len is how much is in the queue.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.first) + len(o.rest)
}

// Pop takes the next one out.
func (o *order) Pop() Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := &o.first
	if len(o.first) == 0 {
		from = &o.rest
	}
	r := (*from)[0]
	(*from)[0] = Request{}
	*from = (*from)[1:]
	return r
}

const (
	// What fails is tried again after this long, then twice that, and so on.
	retryFirst = 10 * time.Millisecond
	retryLast  = 10 * time.Second
)
