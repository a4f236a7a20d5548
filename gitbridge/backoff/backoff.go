// Package backoff is how long the controllers of all programs wait before they look again
// at what failed. It knows nothing of what they do.
package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// MaxWait is the longest wait of most controllers.
	MaxWait = 30 * time.Second
	// MaxHostWait is that of one that asks a Git host elsewhere. Such a host counts requests that
	// it refuses, and often refuses those of all app clusters.
	MaxHostWait = 5 * time.Minute
)

// Controller is for a controller with so many workers. Each call is for one: what fails is
// counted by name.
func Controller(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: RateLimiter[reconcile.Request](MaxWait)}
}

// RateLimiter has what fails looked at again after 100 ms, then twice that, and so on up to
// maxWait. It is for one controller, or queue.
func RateLimiter[T comparable](maxWait time.Duration) workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](100*time.Millisecond, maxWait)
}
