// Package claimcache watches the objects that the bridge has applied on the control
// plane, of whatever kinds. It keeps what decisions need of each: identity, what the
// bridge wrote on it, and its status. It sees only objects that carry the bridge's
// label.
package claimcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers"
	"gitbind.dev/gitbridge/internal/tenant"
)

// Objects are the watched objects of all app clusters.
type Objects struct {
	config   *rest.Config
	selector labels.Selector
	// changed is told which claim of which cluster an object is that changed,
	// and whether it just did.
	changed func(clusterID string, key contract.Key, now bool)

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*watch
	// run starts an informer; nil until the process works.
	run     func(toolscache.SharedIndexInformer)
	waiting []toolscache.SharedIndexInformer
}

type watch struct {
	objects toolscache.Store
	synced  <-chan struct{}
	// late is closed when it takes longer than it should: nobody waits any more.
	late chan struct{}
}

func (w *watch) isSynced() bool {
	select {
	case <-w.synced:
		return true
	default:
		return false
	}
}

// New watches nothing yet. It must be started.
func New(config *rest.Config, changed func(clusterID string, key contract.Key, now bool)) (*Objects, error) {
	ours, err := labels.NewRequirement(tenant.ClusterLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	return &Objects{config: config, selector: labels.NewSelector().Add(*ours), changed: changed, kinds: map[schema.GroupVersionKind]*watch{}}, nil
}

// Start watches until ctx ends.
func (o *Objects) Start(ctx context.Context) error {
	var running sync.WaitGroup
	o.mu.Lock()
	o.run = func(i toolscache.SharedIndexInformer) {
		if ctx.Err() == nil {
			running.Go(func() { i.RunWithContext(ctx) })
		}
	}
	for _, i := range o.waiting {
		o.run(i)
	}
	o.waiting = nil
	o.mu.Unlock()
	<-ctx.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	running.Wait()
	return nil
}

// syncTime is how long to wait for the first list of a kind.
const syncTime = 10 * time.Second

// Watch begins to watch a kind, and returns when all its objects are known.
func (o *Objects) Watch(ctx context.Context, kind schema.GroupVersionKind, binding string) error {
	w, err := o.begin(kind, binding)
	if err != nil {
		return fmt.Errorf("watch %s: %w", binding, err)
	}
	if w.isSynced() {
		return nil
	}
	select {
	case <-w.synced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.late:
		return fmt.Errorf("watch %s: its objects are not known yet: may the bridge list and watch them?", binding)
	}
}

func (o *Objects) begin(kind schema.GroupVersionKind, binding string) (*watch, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.kinds[kind]; w != nil {
		return w, nil
	}
	informer, err := informers.New(o.config, schema.ParseGroupResource(binding).WithVersion(kind.Version), o.selector, decodeObject)
	if err != nil {
		return nil, err
	}
	tell := func(object any, now bool) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		u, ok := object.(*cachedObject)
		if !ok {
			return
		}
		if id, key, ok := tenant.Origin(binding, u.Namespace, u.Name, u.GetLabels()); ok {
			o.changed(id, key, now)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(u any, initial bool) { tell(u, !initial) },
		UpdateFunc: func(_, u any) { tell(u, true) },
		DeleteFunc: func(u any) { tell(u, true) },
	}); err != nil {
		return nil, err
	}
	w := &watch{objects: informer.GetStore(), synced: informer.HasSyncedChecker().Done(), late: make(chan struct{})}
	time.AfterFunc(syncTime, func() { close(w.late) })
	o.kinds[kind] = w
	if o.run != nil {
		o.run(informer)
	} else {
		o.waiting = append(o.waiting, informer)
	}
	return w, nil
}

// Get is an object of a watched kind, nil if there is none. It has no spec.
func (o *Objects) Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o.mu.Lock()
	w := o.kinds[kind]
	o.mu.Unlock()
	if w == nil || !w.isSynced() {
		return nil, fmt.Errorf("get %s %s/%s: the objects of this kind are not known yet", kind.Kind, namespace, name)
	}
	object, ok, err := w.objects.GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil, err
	}
	c, ok := object.(*cachedObject)
	if !ok {
		return nil, fmt.Errorf("get %s %s/%s: the cache has a %T", kind.Kind, namespace, name, object)
	}
	return c.object()
}
