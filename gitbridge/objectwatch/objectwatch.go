// Package objectwatch knows which objects of one kind there are in the namespaces where
// somebody selects some, and tells who does when these change. It has their metadata
// only, and watches a namespace as long as it is asked for. It reads no object, and
// changes none.
package objectwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"gitbind.dev/gitbridge/selection"
)

// ErrNotKnown says that a namespace's objects are not known yet. Who asked is told when
// they are.
var ErrNotKnown = errors.New("the objects of the namespace are not known yet")

// ForbiddenError says that a namespace's objects may not be read.
type ForbiddenError struct {
	Resource, Namespace string
	// Retry is how long until somebody may try to read one again; 0 where who asked is
	// told when they may be watched.
	Retry time.Duration
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("%s may not be read in namespace %s", e.Resource, e.Namespace)
}

// UnlistedError says that a namespace's objects cannot be listed, and have not been for
// a while. Who asked is told when they are known.
type UnlistedError struct {
	Resource, Namespace string
	// Err is what the API server said last.
	Err error
}

func (e *UnlistedError) Error() string {
	return fmt.Sprintf("%s cannot be listed in namespace %s: %v", e.Resource, e.Namespace, e.Err)
}

func (e *UnlistedError) Unwrap() error { return e.Err }

const (
	// unlistedAfter is how long listing may fail until that is said.
	unlistedAfter = 5 * time.Second
	// A read that was refused is tried again after retryFirst, then after twice that, and
	// so on up to retryMost: one read for all who select something in the namespace.
	retryFirst, retryMost = time.Second, 5 * time.Minute
)

// Watches are of one kind of objects.
type Watches struct {
	client   metadata.Interface
	resource schema.GroupVersionResource
	changed  func(id string)

	ctx context.Context
	run sync.WaitGroup

	mu         sync.Mutex
	namespaces map[string]*namespace
}

// namespace is one that is watched.
type namespace struct {
	stop context.CancelFunc
	// synced is closed when all objects were told.
	synced <-chan struct{}
	// forbidden says that it cannot be watched.
	forbidden bool
	// failed is why the objects cannot be listed, failing since when, and unlisted says that
	// this has lasted for a while.
	failed   error
	failing  time.Time
	unlisted bool
	// refused is how often reading was refused in a row, and until when it is not tried.
	refused int
	until   time.Time
	index   index
}

// New returns watches that end with ctx. Changed is told of those who select an object
// which came, went, or changed, by their ids, and of all in a namespace of which more is
// known. It must not block.
func New(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource, changed func(id string)) *Watches {
	return &Watches{client: client, resource: resource, changed: changed, ctx: ctx, namespaces: map[string]*namespace{}}
}

// Wait waits for all watches to end with their context.
func (w *Watches) Wait() { w.run.Wait() }

// Watching tells whether a namespace is watched.
func (w *Watches) Watching(in string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.namespaces[in] != nil
}

// Find gives the objects that selections take, and remembers what they are for. The error
// is ErrNotKnown, an *UnlistedError or a *ForbiddenError.
func (w *Watches) Find(in, id string, selections []selection.Selection) (selection.Found, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.namespaces[in]
	if n == nil {
		n = w.begin(in)
	}
	n.index.want(id, selections)
	if n.forbidden {
		// A right that was withdrawn is told, also where the objects were known before.
		return nil, &ForbiddenError{Resource: w.resource.Resource, Namespace: in}
	}
	if rest := time.Until(n.until); rest > 0 {
		return nil, &ForbiddenError{Resource: w.resource.Resource, Namespace: in, Retry: rest}
	}
	select {
	case <-n.synced:
		return n.index.find(selections), nil
	default:
	}
	if n.unlisted {
		return nil, &UnlistedError{w.resource.Resource, in, n.failed}
	}
	return nil, ErrNotKnown
}

// Forget says that nobody of this id selects anything any more. A namespace where nobody
// does is not watched.
func (w *Watches) Forget(in, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.namespaces[in]
	if n == nil {
		return
	}
	if n.index.forget(id); n.index.isUnwanted() {
		n.stop()
		delete(w.namespaces, in)
	}
}

// Read notes whether objects of a namespace may be read: err is what reading one came to.
// After a refusal, nobody need try for a while, which grows with each refusal after it. It
// returns a *ForbiddenError
// for a refusal, and err otherwise.
func (w *Watches) Read(in string, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.namespaces[in]
	switch {
	case n == nil:
		return err
	case !apierrors.IsForbidden(err):
		if err == nil {
			n.refused = 0
		}
		return err
	}
	now := time.Now()
	if !n.until.After(now) {
		n.until = now.Add(min(retryFirst<<min(n.refused, 10), retryMost))
		n.refused++
	}
	return &ForbiddenError{Resource: w.resource.Resource, Namespace: in, Retry: n.until.Sub(now)}
}

// begin watches a namespace. It must be called with mu held.
func (w *Watches) begin(in string) *namespace {
	objects := w.client.Resource(w.resource).Namespace(in)
	ctx, stop := context.WithCancel(w.ctx)
	n := &namespace{stop: stop, index: newIndex()}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, o)
			w.asked(n, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			events, err := objects.Watch(ctx, o)
			w.asked(n, err)
			return events, err
		},
	}, w.client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// An error can only say that it runs already.
	_ = informer.SetTransform(trim)
	_ = informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	handled, _ := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { w.tell(n, nil, metadataOf(o), !initial) },
		UpdateFunc: func(before, o any) { w.tell(n, metadataOf(before), metadataOf(o), true) },
		DeleteFunc: func(o any) { w.tell(n, metadataOf(o), nil, true) },
	})
	n.synced = handled.HasSyncedChecker().Done()
	w.namespaces[in] = n
	w.run.Go(func() { informer.RunWithContext(ctx) })
	w.run.Go(func() {
		select {
		case <-n.synced:
			w.tellAll(n)
		case <-ctx.Done():
		}
	})
	return n
}

// trim leaves of an object what is needed to know it.
func trim(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.Annotations, m.ManagedFields = nil, nil
	}
	return o, nil
}

func metadataOf(o any) *metav1.PartialObjectMetadata {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	m, _ := o.(*metav1.PartialObjectMetadata)
	return m
}

// asked notes whether a namespace may be watched, and tells of it when that changes, or
// fails for a while.
func (w *Watches) asked(n *namespace, err error) {
	forbidden := apierrors.IsForbidden(err)
	w.mu.Lock()
	if err != nil && !forbidden {
		// It says nothing of what may be read.
		if n.failed == nil {
			n.failing = time.Now()
		}
		lasts := time.Since(n.failing) >= unlistedAfter
		news := lasts && !n.unlisted
		n.failed, n.unlisted = err, lasts
		w.mu.Unlock()
		if news {
			w.tellAll(n)
		}
		return
	}
	n.failed, n.unlisted = nil, false
	changed := n.forbidden != forbidden
	n.forbidden = forbidden
	if changed && !forbidden {
		n.refused, n.until = 0, time.Time{}
	}
	w.mu.Unlock()
	if changed {
		w.tellAll(n)
	}
}

// tell keeps an object as it is now, nil for none, and calls those who select it as it is
// or as it was.
func (w *Watches) tell(n *namespace, before, now *metav1.PartialObjectMetadata, call bool) {
	w.mu.Lock()
	n.index.put(before, now)
	ids := map[string]bool{}
	if call {
		n.index.wanting(before, ids)
		n.index.wanting(now, ids)
	}
	w.mu.Unlock()
	for id := range ids {
		w.changed(id)
	}
}

func (w *Watches) tellAll(n *namespace) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(n.index.wanted))
	w.mu.Unlock()
	for _, id := range ids {
		w.changed(id)
	}
}
