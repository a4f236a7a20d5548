// Package claimcache watches the objects that the bridge has applied on the control
// plane, of whatever kinds. It keeps what decisions need of each, without its
// spec, and sees only objects that carry the bridge's label.
package claimcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers"
	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/packed"
)

// Objects are the watched objects of all app clusters.
type Objects struct {
	cache cache.Cache
	// changed is told which claim of which cluster an object is that changed,
	// and whether it just did.
	changed func(clusterID string, key contract.Key, now bool)

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*watch
}

type watch struct {
	synced <-chan struct{}
	// late is closed when it takes longer than it should: nobody waits any more.
	late chan struct{}
}

// New watches nothing yet. It must be started.
func New(config *rest.Config, mapper meta.RESTMapper, changed func(clusterID string, key contract.Key, now bool)) (*Objects, error) {
	ours, err := labels.NewRequirement(tenant.ClusterLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	share := true
	c, err := informers.NewCache(config, cache.Options{
		Mapper:               mapper,
		DefaultLabelSelector: labels.NewSelector().Add(*ours),
		DefaultTransform:     slim,
		// Nobody changes what they get.
		DefaultUnsafeDisableDeepCopy: &share,
		ReaderFailOnMissingInformer:  true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of applied objects: %w", err)
	}
	return &Objects{cache: c, changed: changed, kinds: map[schema.GroupVersionKind]*watch{}}, nil
}

// Start watches until ctx ends.
func (o *Objects) Start(ctx context.Context) error { return o.cache.Start(ctx) }

// slim drops what no decision is made on.
func slim(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok && !packed.Is(u) {
		delete(u.Object, "spec")
		drift.Slim(u)
		if packed.Needed() {
			return object, packed.Pack(u, "labels")
		}
	}
	return object, nil
}

// syncTime is how long to wait for the first list of a kind.
const syncTime = 10 * time.Second

// Watch begins to watch a kind, and returns when all its objects are known.
func (o *Objects) Watch(ctx context.Context, kind schema.GroupVersionKind, binding string) error {
	w, err := o.begin(ctx, kind, binding)
	if err != nil {
		return fmt.Errorf("watch %s: %w", binding, err)
	}
	select {
	case <-w.synced:
		return nil
	default:
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

func (o *Objects) begin(ctx context.Context, kind schema.GroupVersionKind, binding string) (*watch, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.kinds[kind]; w != nil {
		return w, nil
	}
	informer, err := o.cache.GetInformer(ctx, of(kind), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	tell := func(object any, now bool) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		if id, key, ok := tenant.Origin(binding, u.GetNamespace(), u.GetName(), u.GetLabels()); ok {
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
	w := &watch{synced: informer.HasSyncedChecker().Done(), late: make(chan struct{})}
	time.AfterFunc(syncTime, func() { close(w.late) })
	o.kinds[kind] = w
	return w, nil
}

// Get is an object of a watched kind, nil if there is none. It must not be
// changed.
func (o *Objects) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	u := of(kind)
	switch err := o.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return packed.Whole(u)
}

func of(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}
