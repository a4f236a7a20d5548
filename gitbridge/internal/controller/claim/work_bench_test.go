package claim

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// benchmarkWorkers is how many requests of one app cluster are worked on at once.
const benchmarkWorkers = 128

// ways are work, and what controller-runtime does in its place.
var ways = []struct {
	name string
	work func(ctx context.Context, queue *Queue, most int, do func(context.Context, Request))
}{
	{"work", func(ctx context.Context, queue *Queue, most int, do func(context.Context, Request)) {
		work(ctx, queue, most, semaphore.NewWeighted(int64(most)), func(ctx context.Context, r Request, _ func()) { do(ctx, r) })
	}},
	{"controller-runtime", workOfControllerRuntime},
}

func workOfControllerRuntime(ctx context.Context, queue *Queue, most int, do func(context.Context, Request)) {
	c, err := controller.NewTypedUnmanaged("claim", controller.TypedOptions[Request]{
		SkipNameValidation: new(true), MaxConcurrentReconciles: most, UsePriorityQueue: new(false),
		NewQueue: func(string, workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request] {
			return queue
		},
		Reconciler: reconcile.TypedFunc[Request](func(ctx context.Context, r Request) (reconcile.Result, error) {
			do(ctx, r)
			return reconcile.Result{}, nil
		}),
		LogConstructor: func(*Request) logr.Logger { return logr.Discard() },
	})
	if err == nil {
		err = c.Start(ctx)
	}
	if err != nil {
		panic(err)
	}
}

// useStack takes so many KiB of stack.
func useStack(kib int) byte {
	var frame [1 << 10]byte
	if kib > 0 {
		frame[kib] = useStack(kib - 1)
	}
	return frame[kib]
}

// request takes as much stack as a request to an API server, and waits for an answer.
func request(wait time.Duration) {
	const kib = 12
	useStack(kib)
	time.Sleep(wait)
}

// BenchmarkWorkOne is from when a request is enqueued, with nothing else to do, until work on it begins.
func BenchmarkWorkOne(b *testing.B) {
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			queue, began := NewQueue(), make(chan struct{})
			var running sync.WaitGroup
			running.Go(func() {
				way.work(b.Context(), queue, benchmarkWorkers, func(context.Context, Request) {
					began <- struct{}{}
					request(0)
				})
			})
			for i := 0; b.Loop(); i++ {
				queue.Enqueue(fmt.Sprint(i), true)
				<-began
			}
			queue.ShutDown()
		})
	}
}

// BenchmarkWorkBurst is for 10,000 requests that wait for 1 ms each.
func BenchmarkWorkBurst(b *testing.B) {
	const requests = 10_000
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			queue := NewQueue()
			var done, running sync.WaitGroup
			running.Go(func() {
				way.work(ctx, queue, benchmarkWorkers, func(context.Context, Request) {
					request(time.Millisecond)
					done.Done()
				})
			})
			for b.Loop() {
				done.Add(requests)
				for i := range requests {
					queue.Enqueue(fmt.Sprint(i), false)
				}
				done.Wait()
			}
			cancel()
			running.Wait()
		})
	}
}

// BenchmarkWorkIdle is what an app cluster takes of memory with nothing to do, after it
// had something: the stacks, and what the heap has for goroutines. Go keeps the latter for
// other goroutines, so a way that is measured after another one seems to take less: run each
// alone.
func BenchmarkWorkIdle(b *testing.B) {
	const clusters, requests = 50, 4 * benchmarkWorkers
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				before := memory()
				ctx, cancel := context.WithCancel(b.Context())
				var done, running sync.WaitGroup
				for range clusters {
					queue := NewQueue()
					running.Go(func() {
						way.work(ctx, queue, benchmarkWorkers, func(context.Context, Request) {
							request(time.Millisecond)
							done.Done()
						})
					})
					done.Add(requests)
					for i := range requests {
						queue.Enqueue(fmt.Sprint(i), false)
					}
					done.Wait()
				}
				after := memory()
				b.ReportMetric(float64(after.StackInuse-before.StackInuse)/clusters/(1<<10), "stack-KiB/cluster")
				b.ReportMetric((float64(after.HeapInuse)-float64(before.HeapInuse))/clusters/(1<<10), "heap-KiB/cluster")
				cancel()
				running.Wait()
			}
		})
	}
}

func memory() (m runtime.MemStats) {
	// A collection halves a stack.
	for range 5 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}
