package claim

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/metrics"
)

// An app cluster with a hundred thousand objects, or a slow API server, takes long each time.
func TestAFirstListOfFourMinutesIsWaitedForAndNotBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int64
		informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				lists.Add(1)
				select {
				case <-time.After(4 * time.Minute):
					return &unstructured.UnstructuredList{}, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
			WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if o.SendInitialEvents != nil {
					return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // by a server that sends no lists to watchers
				}
				return watch.NewFake(), nil
			},
		}, nil, 0, toolscache.Indexers{})
		w := newGitWorld(t)
		run, cancel := context.WithCancel(t.Context())
		w.r.claims = cachedClaims{informer.GetStore(), informer.HasSyncedChecker().Done(), run.Done()}
		go w.r.api().Repository.Run(run)
		synctest.Wait()
		kept, err := (&Controllers{Workers: 1}).controller(&running{reconciler: w.r}, informer)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- kept.Start(run) }()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("it has ended: %v", err)
		default:
		}
		if !informer.HasSynced() || lists.Load() != 1 {
			t.Errorf("synced %t, listed %d times", informer.HasSynced(), lists.Load())
		}
		cancel()
		synctest.Wait()
	})
}

// A claim that is held without a file, as its writer was another one, is called by nothing else.
func TestWhoMayWriteIsNewToAllClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGitWorld(t)
		w.r.claims.store = toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
		if err := w.r.claims.store.Add(&cachedClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "ordered"}}); err != nil {
			t.Fatal(err)
		}
		run, cancel := context.WithCancel(t.Context())
		go w.r.api().Repository.Run(run)
		synctest.Wait()
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		c := &Controllers{running: map[string]*running{binding: {reconciler: w.r, done: make(chan struct{}), queue: q}}}
		api := *w.r.api()
		for _, step := range []struct {
			writer v1alpha1.Writer
			want   []string
		}{{v1alpha1.WriterGit, []string{"ordered", key.Name}}, {v1alpha1.WriterGit, nil}, {v1alpha1.WriterBoth, []string{"ordered", key.Name}}} {
			api.Writer = step.writer
			if err := c.Ensure(run, api); err != nil {
				t.Fatal(err)
			}
			var called []string
			for q.Len() > 0 {
				request, _ := q.Get()
				called = append(called, request.Name)
				q.Done(request)
			}
			slices.Sort(called)
			if diff := cmp.Diff(step.want, called); diff != "" {
				t.Errorf("%s: %s", step.writer, diff)
			}
		}
		q.ShutDown()
		cancel()
		synctest.Wait()
	})
}

// The queue may lock up when it is shut down: see shutdownLatch.
func TestAControllerThatIsStoppedLeavesNothingThoughItNeverReturns(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	numbers := prometheus.NewPedanticRegistry()
	konnector, err := metrics.NewKonnector(numbers)
	if err != nil {
		t.Fatal(err)
	}
	store, synced := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), make(chan struct{})
	close(synced)
	if err := store.Add(decoded(t, agreedObject(t, 1))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.r.claims, w.r.numbers = cachedClaims{store, synced, ctx.Done()}, konnector.Of("k3x9d2abqw", key.Binding)
	w.r.numbers.Is("team-a/orders", "Held", "ManyRemovals")
	all := &Controllers{running: map[string]*running{key.Binding: {reconciler: w.r, cancel: cancel, done: make(chan struct{})}}}
	all.Stop(key.Binding)
	families, err := numbers.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() != 0 {
				t.Errorf("it is still counted: %s of %s", m, f.GetName())
			}
		}
	}
	if left := store.List(); len(left) > 0 {
		t.Errorf("the cache has %d claims", len(left))
	}
}
