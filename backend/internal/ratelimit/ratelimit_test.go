package ratelimit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAKeyMayDoABurstAndThenOneEachTime(t *testing.T) {
	t.Parallel()
	const every, burst = time.Second, 3
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var k Keyed
	take := func(key string) (func(), time.Duration) { return k.Take(key, every, burst, now) }
	for i := range burst {
		if _, wait := take("a"); wait > 0 {
			t.Fatalf("%d: waits %s", i, wait)
		}
	}
	for range 2 { // What must wait does not count.
		if undo, wait := take("a"); wait != every || undo != nil {
			t.Errorf("one too many: waits %s", wait)
		}
	}
	if _, wait := take("b"); wait > 0 {
		t.Errorf("another: waits %s", wait)
	}
	now = now.Add(every)
	undo, wait := take("a")
	if wait > 0 {
		t.Fatalf("later: waits %s", wait)
	}
	if _, wait := take("a"); wait != every {
		t.Errorf("later, twice: waits %s", wait)
	}
	undo()
	if _, wait := take("a"); wait > 0 {
		t.Errorf("what is undone counts: waits %s", wait)
	}
}

func TestWhatMustWaitDoesNotKeepAUseFromBeingUndone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var k Keyed
	undo, _ := k.Take("a", time.Second, 1, now)
	now = now.Add(time.Second / 4)
	if _, wait := k.Take("a", time.Second, 1, now); wait != 3*time.Second/4 {
		t.Fatalf("waits %s", wait)
	}
	undo()
	if _, wait := k.Take("a", time.Second, 1, now); wait > 0 {
		t.Errorf("what is undone counts: waits %s", wait)
	}
}

// Those who come first, at once, have one limiter.
func TestManyAtOnceAreNoMoreThanABurst(t *testing.T) {
	t.Parallel()
	var k Keyed
	var let atomic.Int64
	var all sync.WaitGroup
	now := time.Now()
	for range 100 {
		all.Go(func() {
			if _, wait := k.Take("a", time.Hour, 2, now); wait == 0 {
				let.Add(1)
			}
		})
	}
	all.Wait()
	if let.Load() != 2 {
		t.Errorf("%d at once", let.Load())
	}
}
