package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// begin works off a queue until stop is called, which returns when work does.
func begin(t *testing.T, queue *Queue, most int, do func(context.Context, Request)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(ctx, queue, most, semaphore.NewWeighted(int64(most)), func(ctx context.Context, r Request, _ func()) { do(ctx, r) })
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestNoMoreRequestsThanTheMostAreWorkedOnAtOnce(t *testing.T) {
	const most, all = 3, 10
	queue, release := NewQueue(), make(chan struct{})
	var running, done atomic.Int64
	for i := range all {
		queue.Enqueue(fmt.Sprint(i), false)
	}
	begin(t, queue, most, func(ctx context.Context, _ Request) {
		if n := running.Add(1); n > most {
			t.Errorf("%d at once, want at most %d", n, most)
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		running.Add(-1)
		done.Add(1)
	})
	until(t, "three are worked on", func() bool { return running.Load() == most })
	if n := queue.Len(); n != all-most {
		t.Errorf("%d in the queue, want the other %d", n, all-most)
	}
	close(release)
	until(t, "all are done", func() bool { return done.Load() == all })
}

// Who waits for a Git host keeps no other app cluster waiting.
func TestWhoWaitsForTheHostDoesNotCountAgainstTheLimit(t *testing.T) {
	t.Parallel()
	lookLimit, host := semaphore.NewWeighted(1), make(chan struct{})
	var waiting, done atomic.Int64
	for range 2 {
		queue := NewQueue()
		for i := range 3 {
			queue.Enqueue(fmt.Sprint(i), false)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			work(ctx, queue, 2, lookLimit, func(_ context.Context, _ Request, release func()) {
				release()
				waiting.Add(1)
				<-host
				done.Add(1)
			})
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
	}
	until(t, "two of each wait for their hosts", func() bool { return waiting.Load() == 4 })
	close(host)
	until(t, "all are done", func() bool { return done.Load() == 6 })
	until(t, "nobody looks", func() bool { return lookLimit.TryAcquire(1) })
}

func TestAPathIsWorkedOnByOneAtATimeAndAfterItsLastChange(t *testing.T) {
	const paths, changes, changers = 5, 200, 4
	queue := NewQueue()
	var changed, seen, busy [paths]atomic.Int64
	begin(t, queue, 8, func(_ context.Context, r Request) {
		var i int
		if _, err := fmt.Sscan(r.Path, &i); err != nil {
			t.Error(err)
		}
		if busy[i].Add(1) > 1 {
			t.Errorf("path %d is worked on twice at once", i)
		}
		at := changed[i].Load()
		time.Sleep(10 * time.Microsecond)
		seen[i].Store(at)
		busy[i].Add(-1)
	})
	var running sync.WaitGroup
	for range changers {
		running.Go(func() {
			for n := range changes {
				i := n % paths
				changed[i].Add(1)
				queue.Enqueue(fmt.Sprint(i), n%2 == 0)
			}
		})
	}
	running.Wait()
	until(t, "the last change of each path is seen", func() bool {
		for i := range paths {
			if seen[i].Load() != changed[i].Load() {
				return false
			}
		}
		return true
	})
}

func TestAnUrgentRequestIsWorkedOnNextWhenAllAreBusy(t *testing.T) {
	queue, began, release := NewQueue(), make(chan string), make(chan struct{})
	queue.Enqueue("busy", false)
	queue.Enqueue("check", false)
	stop := begin(t, queue, 1, func(ctx context.Context, r Request) {
		select {
		case began <- r.Path:
			<-release
		case <-ctx.Done():
		}
	})
	got := []string{<-began}
	queue.Enqueue("urgent", true)
	close(release)
	got = append(got, <-began, <-began)
	if want := []string{"busy", "urgent", "check"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	stop()
}

func TestWorkEndsWhenWhatItBeganHasEnded(t *testing.T) {
	queue, began := NewQueue(), make(chan struct{})
	var ended atomic.Bool
	queue.Enqueue("a", false)
	stop := begin(t, queue, 2, func(ctx context.Context, _ Request) {
		close(began)
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		ended.Store(true)
	})
	<-began
	stop()
	if !ended.Load() {
		t.Error("work has returned before what it began")
	}
	if !queue.ShuttingDown() {
		t.Error("the queue takes more")
	}
}

func TestAPathIsTriedAgainAfterAPanic(t *testing.T) {
	f := start(t)
	f.patch = func() error { panic("a bug") }
	f.reconcile(t.Context(), Request{Path: f.path}, func() {})
	until(t, "the path is in the queue", func() bool { return f.queue.Len() > 0 })
	if r, _ := f.queue.Get(); r.Path != f.path {
		t.Errorf("%q is next, want %q", r.Path, f.path)
	}
	if !slices.Contains(f.calls, "apply") {
		t.Errorf("%q: it did not come to the panic", f.calls)
	}
}

func TestAPathComesAgainAfterItsWait(t *testing.T) {
	f := start(t)
	f.patch = func() error { return apierrors.NewInternalError(errors.New("no")) }
	f.reconcile(t.Context(), Request{Path: f.path}, func() {})
	until(t, "the path is in the queue", func() bool { return f.queue.Len() > 0 })
	if r, _ := f.queue.Get(); r.Path != f.path {
		t.Errorf("%q is next, want %q", r.Path, f.path)
	}
}
