// Package request answers the requests of one app cluster: it asks whether the
// cluster's own ServiceAccount may bind what a file on main asks for, makes the
// APIServiceExport, and deletes it when somebody removed the file and no claim is
// in the way. It grants no rights itself: those follow from the export, and are
// the backend's to give.
package request

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/gitbridge/internal/failure"
	decide "gitbind.dev/gitbridge/internal/request"
	"gitbind.dev/gitbridge/internal/session"
)

// Request names one request on main.
type Request struct{ Path string }

// Controller works for one app cluster.
type Controller struct {
	Session *session.Session
	// Client reads from a cache and writes to the API server; Server does not use
	// the cache.
	Client client.Client
	Server client.Reader
	// HasObjects asks the API server whether there are objects of a binding's claims. Known is
	// false where it cannot tell.
	HasObjects func(ctx context.Context, binding string) (has, known bool, err error)
	Log        logr.Logger

	failing failure.Times
}

// Queue holds the requests to look at.
type Queue struct {
	workqueue.TypedRateLimitingInterface[Request]
}

const (
	// reask is how often it is asked whether a cluster may still bind what it has.
	reask = 5 * time.Minute
	// rightsDelay is how long a change of rights may take to reach all that judge by
	// them.
	rightsDelay = 2 * time.Second
)

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{workqueue.NewTypedRateLimitingQueueWithConfig(
		backoff.RateLimiter[Request](backoff.MaxWait),
		workqueue.TypedRateLimitingQueueConfig[Request]{Name: "request"},
	)}
}

// Enqueue has a request looked at. What changes just now is looked at twice.
func (q *Queue) Enqueue(path string, changes bool) {
	r := Request{Path: path}
	q.Add(r)
	if changes {
		q.AddAfter(r, rightsDelay)
	}
}

// Run works off the queue until ctx ends.
func (c *Controller) Run(ctx context.Context, queue *Queue) error {
	many, no := true, false
	workers, err := controller.NewTypedUnmanaged("request", controller.TypedOptions[Request]{
		// One for each app cluster, and so that none waits for another's host.
		SkipNameValidation:      &many,
		MaxConcurrentReconciles: 4,
		Reconciler:              c,
		RateLimiter:             backoff.RateLimiter[Request](backoff.MaxWait),
		NewQueue: func(string, workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request] {
			return queue
		},
		UsePriorityQueue: &no,
		LogConstructor: func(r *Request) logr.Logger {
			log := c.Log.WithValues("controller", "request", "cluster", c.Session.Cluster.ID)
			if r != nil {
				log = log.WithValues("path", r.Path)
			}
			return log
		},
	})
	if err != nil {
		return err
	}
	return workers.Start(ctx)
}

// Reconcile answers one request.
func (c *Controller) Reconcile(ctx context.Context, r Request) (reconcile.Result, error) {
	view := c.Session.View()
	if view.Main == nil || view.Held || c.Session.Stops.Why() != nil {
		// Nothing counts yet, or nothing may be done: all paths come again.
		return reconcile.Result{}, nil
	}
	s, err := c.look(ctx, view, r.Path)
	switch {
	case err != nil && s != nil && s.File != nil:
		return reconcile.Result{}, c.fail(ctx, s, err)
	case err != nil:
		// How a file went must be known before anything is said of it.
		return reconcile.Result{}, err
	}
	d := decide.Decide(s.Facts)
	if err := c.act(ctx, s, d); err != nil {
		return reconcile.Result{}, c.fail(ctx, s, err)
	}
	if err := c.answer(ctx, s, d.Answer); err != nil {
		return reconcile.Result{}, err
	}
	c.failing.Worked(r.Path)
	return reconcile.Result{RequeueAfter: after(s, d)}, nil
}

// act does what was decided.
func (c *Controller) act(ctx context.Context, s *step, d decide.Decision) error {
	var err error
	switch d.Effect {
	case decide.Grant:
		err = c.grant(ctx, s, d.Template)
	case decide.Withdraw:
		err = c.withdraw(ctx, s)
	}
	if err != nil {
		return err
	}
	return c.say(ctx, s, d.Permitted)
}

// fail has a request looked at again, and answers it when what is wrong lasts:
// others, and what is on main beside it, do not wait for it.
func (c *Controller) fail(ctx context.Context, s *step, err error) error {
	if ctx.Err() != nil || c.failing.Failed(s.Path, time.Now()) < failure.TellAfter {
		return err
	}
	return errors.Join(err, c.answer(ctx, s, s.Failed(words(err))))
}

// after is when to look again, if nothing happens that is noticed.
func after(s *step, d decide.Decision) time.Duration {
	switch {
	case s.File != nil:
		return reask
	case d.Answer != nil && s.Claim != "":
		// No event tells that the last claim is gone.
		return rightsDelay
	}
	return 0
}
