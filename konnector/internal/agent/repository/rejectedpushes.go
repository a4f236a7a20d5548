package repository

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gitbind.dev/gitbridge/store"
)

// While a host rejects what is pushed, each claim's events would push again. Of all of
// them together so many pushes are tried then, and one more for each time that passes.
const (
	maxRejected   = 4
	rejectedEvery = time.Second
)

// ErrNotTried says that a commit was not pushed, as the host rejected those before it.
// It is a store.ErrRejected.
var ErrNotTried = fmt.Errorf("not tried yet: %w", store.ErrRejected)

// rejections bound how often a host is asked that rejects. One that takes a push may
// be asked as often as there is something to push: a claim whose commits alone are
// rejected delays the others by a second at most.
type rejections struct {
	mu sync.Mutex
	// last is what the host said to the last push; nil when it took that.
	last    error
	limiter *rate.Limiter
	// turnedAway says that somebody was not tried since.
	turnedAway bool
}

// check is the error of a push that is not to be tried now.
func (r *rejections) check(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.limiter.AllowN(now, 1) {
		return nil
	}
	r.turnedAway = true
	return fmt.Errorf("%w, as the host rejected the push before it: %s", ErrNotTried, r.last.Error())
}

// note keeps what came of a push, and reports whether those who were turned away are
// to try again.
func (r *rejections) note(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrRejected):
		if r.last == nil {
			r.limiter = rate.NewLimiter(rate.Every(rejectedEvery), maxRejected)
		}
		r.last = err
	case err == nil:
		again := r.turnedAway
		r.last, r.turnedAway = nil, false
		return again
	}
	return false
}
