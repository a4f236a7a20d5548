package clusterqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// running is a queue whose work is noted by when it was done, since the test began.
func running(t *testing.T, do func(tries int) error) (q *Queue, done func() []time.Duration) {
	var mu sync.Mutex
	var at []time.Duration
	began := time.Now()
	q = New(1, func(context.Context, string) error {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Since(began))
		return do(len(at))
	})
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { q.Run(ctx) })
	t.Cleanup(func() { cancel(); runs.Wait() })
	return q, func() []time.Duration {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}

func TestWorkForLaterIsDoneThenAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		q, done := running(t, func(int) error {
			if since := time.Since(began); since < time.Minute {
				return &LaterError{After: time.Minute - since}
			}
			return nil
		})
		for range 100 {
			q.Add("a")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		at := done()
		if last := at[len(at)-1]; last != time.Minute || len(at) != 101 {
			t.Errorf("it was looked at %d times, and done after %s", len(at), last)
		}
	})
}

// Nothing that is for later begins the tries of what fails again.
func TestWhatFailsIsTriedNoMoreOftenForWhatIsForLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		q, done := running(t, func(tries int) error {
			if tries%2 == 0 {
				return &LaterError{After: time.Second}
			}
			failed++
			return errors.New("it is away")
		})
		q.Add("a")
		time.Sleep(time.Hour)
		if done(); failed != maxTries+1 {
			t.Errorf("it was tried %d times", failed)
		}
	})
}
