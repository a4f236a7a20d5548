// Package backoff is how long the controllers of all programs wait before they look again
// at what failed. It knows nothing of what they do.
package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What fails is looked at again after first, then twice that, and so on up to last.
const (
	first = 100 * time.Millisecond
	last  = 30 * time.Second

	lastOfHost = 5 * time.Minute
)

// Controller is for a controller with so many workers. Each call is for one: what fails is
// counted by name.
func Controller(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: RateLimiter[reconcile.Request]()}
}

// HostController is Controller for one that asks a Git host elsewhere. That counts what it
// refuses, and what it refuses, it often refuses for all app clusters alike.
func HostController(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers, RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, lastOfHost),
	}
}

// RateLimiter is for a queue of its own.
func RateLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](first, last)
}
