package claim

import (
	"context"
	"testing"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
)

// countingReader counts what is read of claims.
type countingReader struct {
	client.Reader
	reads int
}

func (c *countingReader) Get(ctx context.Context, name client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if name.Name == key.Name {
		c.reads++
	}
	return c.Reader.Get(ctx, name, o, opts...)
}

// A look at a large claim takes much, so there are few at once; and who has no room takes no
// worker from others.
func TestH4_ALargeClaimIsLookedAtWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// current says that the cache knows the object as it is, and reads is how often it
		// is read to find that there is no room.
		current bool
		reads   int
	}{{"known to be large", true, 0}, {"known when it was small", false, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newGitWorld(t)
			w.agreed()
			live := &countingReader{Reader: w.server}
			w.r.live = live
			w.r.claims.store = toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
			reconcile := func() ctrl.Result {
				t.Helper()
				live.reads = 0
				result, err := w.r.Reconcile(t.Context(), request(key))
				if err != nil {
					t.Fatal(err)
				}
				return result
			}
			cached := w.object()
			w.change(func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, noise(1300<<10), "spec", "plan")
			})
			if tc.current {
				cached = w.object()
			} else {
				_ = unstructured.SetNestedField(cached.Object, "another", "spec", "plan")
			}
			if err := w.r.claims.store.Add(decoded(t, cached)); err != nil {
				t.Fatal(err)
			}

			if !w.r.large.TryAcquire(maxLooks) {
				t.Fatal("there is no room")
			}
			if result := reconcile(); result.RequeueAfter == 0 || live.reads != tc.reads || conditionIn(w.object(), conditionCommitted) != nil {
				t.Errorf("without room: %v, read %d times", result, live.reads)
			}
			w.r.large.Release(maxLooks)
			// Two of them do not both fit.
			if !w.r.large.TryAcquire(1200 << 10) {
				t.Fatal("there is no room")
			}
			if result := reconcile(); result.RequeueAfter == 0 {
				t.Errorf("beside another: %v", result)
			}
			w.r.large.Release(1200 << 10)

			result := reconcile()
			if c := conditionIn(w.object(), conditionCommitted); result != (ctrl.Result{}) || c == nil || c.reason != "TooLarge" {
				t.Errorf("with room: %v, %+v", result, c)
			}
			if len(w.r.written.objects) > 0 {
				t.Error("what was written is kept whole")
			}
			// It is done: nothing but an event calls it again.
			if err := w.r.claims.store.Update(decoded(t, w.object())); err != nil {
				t.Fatal(err)
			}
			before := w.object().GetResourceVersion()
			if result := reconcile(); result != (ctrl.Result{}) || w.object().GetResourceVersion() != before {
				t.Errorf("once that is said: %v", result)
			}
			if !w.r.large.TryAcquire(maxLooks) {
				t.Error("what it took is not given back")
			}
		})
	}
}

// People push files, too.
func TestH4_ALargeFileIsLookedAtWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.agreed()
	w.r.claims.store = toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	if err := w.r.claims.store.Add(decoded(t, w.object())); err != nil {
		t.Fatal(err)
	}
	data, err := contract.Encode(version(noise(100 << 10)))
	if err != nil {
		t.Fatal(err)
	}
	w.write("main", key.Path(), data)
	if _, err := w.main.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	plan := func() string {
		plan, _, _ := unstructured.NestedString(w.object().Object, "spec", "plan")
		return plan
	}
	if !w.r.large.TryAcquire(maxLooks) {
		t.Fatal("there is no room")
	}
	if result, err := w.r.Reconcile(t.Context(), request(key)); err != nil || result.RequeueAfter == 0 || plan() != "small" {
		t.Errorf("without room: %v, %v", result, err)
	}
	w.r.large.Release(maxLooks)
	if _, err := w.r.Reconcile(t.Context(), request(key)); err != nil || len(plan()) < 100<<10 {
		t.Errorf("with room: %v, %d bytes", err, len(plan()))
	}
}

// A Git host that does not answer is waited for by the claims of its Connection alone.
func TestALookNeedsNoRoomOfAnotherConnection(t *testing.T) {
	t.Parallel()
	c := &common{large: map[string]*semaphore.Weighted{}}
	if !c.largeOf("a").TryAcquire(maxLooks) || c.largeOf("a").TryAcquire(1) {
		t.Error("there is not one room for all APIs of a Connection")
	}
	if !c.largeOf("b").TryAcquire(maxLooks) {
		t.Error("another Connection has none")
	}
}

// Two that have room need not both give up where they are a bit larger than the cache has it.
func TestALookKeepsTheRoomThatItHas(t *testing.T) {
	t.Parallel()
	room := newLargeLooks()
	a, b, c, small := &largeLook{room: room}, &largeLook{room: room}, &largeLook{room: room}, &largeLook{room: room}
	if !a.takes(maxLooks/2) || !b.takes(maxLooks/4) || !c.takes(maxLooks/4) {
		t.Fatal("they do not fit")
	}
	if !a.takes(maxLooks/2+100) || !b.takes(maxLooks/4+100) {
		t.Error("they give up")
	}
	if c.takes(maxLooks) {
		t.Error("one takes what is not there")
	}
	if !small.takes(maxKept) || small.takes(maxKept+1) {
		t.Error("a small one waits, or a large one does not")
	}
	a.end()
	b.end()
	c.end()
	alone := &largeLook{room: room}
	if !alone.takes(10 * maxLooks) {
		t.Error("one that is larger than all room is never looked at")
	}
	alone.end()
}
