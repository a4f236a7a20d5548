package request

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// tellFailureAfter is how long something may fail before it is told.
const tellFailureAfter = 3 * time.Second

// failing are the requests, by their paths, that could not be acted upon, and
// since when.
type failing struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// lasts notes that a request fails, and reports whether it does for long.
func (f *failing) lasts(path string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since == nil {
		f.since = map[string]time.Time{}
	}
	since, ok := f.since[path]
	if !ok {
		f.since[path] = now
		return false
	}
	return now.Sub(since) >= tellFailureAfter
}

func (f *failing) works(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.since, path)
}

// words tell the request's author what the control plane says.
func words(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return "the control plane refuses it, and it is tried again: " + status.Status().Message
	}
	return "the control plane does not answer: it is tried again"
}
