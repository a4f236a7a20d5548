package gitstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	// minBackoff and maxBackoff bound the pause after requests that failed.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// maxCallerWait is how long callers are kept waiting. When the remote asked for
	// more, they are told instead.
	maxCallerWait = 10 * time.Second
	// maxRetryAfter bounds what a remote can ask for.
	maxRetryAfter = 10 * time.Minute
)

// WaitBackoff waits while the remote is to be left alone.
func (t *throttle) WaitBackoff(ctx context.Context) error {
	for {
		t.mu.Lock()
		until, asked, over := t.until, t.asked, t.over
		t.mu.Unlock()
		if err := t.waitAsked(ctx, asked); err != nil {
			return err
		}
		rest := time.Until(until)
		if rest <= 0 {
			return nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-over:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// waitAsked waits for what the remote asked for, or says that it is too long.
func (t *throttle) waitAsked(ctx context.Context, asked time.Time) error {
	rest := time.Until(asked)
	switch {
	case rest <= 0:
		return nil
	case rest > maxCallerWait:
		return fmt.Errorf("the remote wants no requests before %s", asked.UTC().Format(time.RFC3339))
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// noteFailure notes a request that had no answer. What fails while a pause lasts is
// part of the same trouble.
func (t *throttle) noteFailure() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Before(t.until) {
		return
	}
	t.delay = min(max(2*t.delay, minBackoff), maxBackoff)
	// Those who lost the same host must not come back in step.
	t.until = time.Now().Add(time.Duration(float64(t.delay) * (0.5 + 0.5*rand.Float64())))
}

// noteAnswer notes an answer.
func (t *throttle) noteAnswer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.delay == 0 {
		return
	}
	t.delay, t.until = 0, time.Time{}
	close(t.over)
	t.over = make(chan struct{})
}

// noteNoAnswer notes a request that failed, unless its caller gave up: a remote
// that falls silent is this side's word, too.
func (t *throttle) noteNoAnswer(ctx context.Context) {
	if cause := context.Cause(ctx); cause == nil || errors.Is(cause, errSilent) {
		t.noteFailure()
	}
}

func (t *throttle) askedUntil() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

// noteRetryAfter notes that the remote asked to be left alone for some time.
func (t *throttle) noteRetryAfter(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := time.Now().Add(min(d, maxRetryAfter)); until.After(t.asked) {
		t.asked = until
	}
}

// retryAfter is what an answer says about when to come back.
func retryAfter(res *http.Response, now time.Time) (time.Duration, bool) {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	value := res.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}
