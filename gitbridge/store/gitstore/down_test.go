package gitstore_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// Many claims and two followers want something all the time; the host must not
// notice more than one of them.
func TestAHostThatIsDownIsAskedSeldomAndFoundWhenItIsBack(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	r := h.open(gitstore.Options{})
	main, status := r.Branch("main"), r.Branch("status")
	update(t, main, storetest.Put("x", "1"))
	update(t, status, storetest.Put("x", "1"))

	h.Break(1 << 30)
	asked := h.requests.Load()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	var done, back atomic.Int64
	const writers = 50
	for w := range writers {
		all.Go(func() {
			// As a controller does, which tries again whenever it is told to.
			for ctx.Err() == nil {
				if _, err := main.Update(ctx, storetest.Put(fmt.Sprint("ns/", w), "1")); err == nil {
					done.Add(1)
					return
				}
			}
		})
	}
	for _, b := range []store.Branch{main, status} {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.Fetch(ctx); err == nil {
					back.Add(1)
					return
				}
			}
		})
	}
	// How the pauses grow is TestPausesGrowWhileAHostIsDownAndEndWhenItIsBack.
	time.Sleep(2 * time.Second)
	n, outage := h.requests.Load()-asked, time.Since(start)
	t.Logf("%d requests in %s", n, outage.Round(time.Millisecond))
	if n > 10*int64(outage/time.Second) {
		t.Errorf("%d requests in %s", n, outage)
	}
	h.Break(0)
	all.Wait()
	if done.Load() != writers || back.Load() != 2 {
		t.Errorf("%d of %d edits, %d fetches within a minute", done.Load(), writers, back.Load())
	}
	if got := fetch(t, h.Branch("main")).Files(); got != writers+1 {
		t.Errorf("%d files", got)
	}
}

func TestABusyHostIsAskedAgainWhenItSaysSo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	b := h.Branch("main")
	update(t, b, storetest.Put("x", "1"))
	var refusals atomic.Int64
	var refusedAt, askedAt atomic.Int64
	h.set(func() {
		h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			now := time.Now().UnixNano()
			if refusals.Add(1) == 1 {
				refusedAt.Store(now)
				w.Header().Set("Retry-After", "1")
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return true
			}
			askedAt.CompareAndSwap(0, now)
			return false
		}
	})
	update(t, b, storetest.Put("x", "2"))
	if pause := time.Duration(askedAt.Load() - refusedAt.Load()); pause < time.Second {
		t.Errorf("it was asked again after %s", pause)
	}

	h.set(func() { h.intercept = answerRetry(http.StatusTooManyRequests, "300") })
	asked := h.requests.Load()
	for range 5 {
		if _, err := b.Update(t.Context(), storetest.Put("x", "3")); err == nil {
			t.Error("it went through")
		}
		if _, err := b.Fetch(t.Context()); err == nil {
			t.Error("it went through")
		}
	}
	if n := h.requests.Load() - asked; n != 1 {
		t.Errorf("%d requests", n)
	}
	h.set(func() { h.intercept = nil })
}

func answerRetry(status int, after string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", after)
		http.Error(w, "busy", status)
		return true
	}
}

// Both branches, and all others in the process that opened the same repository,
// draw on one budget, and nobody pushes against oneself.
func TestAllWhoOpenARepositoryShareItsBudgetAndItsTurns(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	const atOnce, interval = 3, 500 * time.Millisecond
	limited := h.open(gitstore.Options{})
	limited.SetBudget(atOnce, interval)
	main := limited.Branch("main")
	again := h.open(gitstore.Options{URL: h.url + "/"}).Branch("main")
	status := h.open(gitstore.Options{}).Branch("status")
	before, start := h.Pushes(), time.Now()
	for i, b := range []store.Branch{main, again, status} {
		update(t, b, storetest.Put("x", fmt.Sprint(i)))
	}
	var all sync.WaitGroup
	for i, b := range []store.Branch{main, again, status} {
		for j := range 5 {
			all.Go(func() {
				if _, err := b.Update(t.Context(), storetest.Put(fmt.Sprint("y", i, j), "1")); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	// Both branches may see the same last one.
	n := h.Pushes() - before
	least := time.Duration(n-atOnce-1) * interval
	// Six, if all come while the first ones are on their way.
	if n > atOnce+10 || time.Since(start) < least {
		t.Errorf("%d pushes in %s, want at least %s", n, time.Since(start), least)
	}
}
