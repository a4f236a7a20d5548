package claimcache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"gitbind.dev/gitbridge/informers"
	"gitbind.dev/gitbridge/internal/tenant"
)

// kind is one that is watched. Its objects are listed again when an app cluster joins
// the shard that has some already: current is used until next is there.
type kind struct {
	binding       string
	resource      schema.GroupVersionResource
	current, next *listing
	// unused says that no binding used it when tidy looked, and nobody asked for it since.
	unused bool
}

// listing is one list of a kind's objects, with what became of them since.
type listing struct {
	informer toolscache.SharedIndexInformer
	objects  toolscache.Indexer
	synced   <-chan struct{}
	// failed is closed when the API server refused it, or takes far too long: nobody waits
	// any more.
	failed chan struct{}
	// superseded is closed when the next listing has taken its place, or its kind was dropped.
	superseded chan struct{}
	stop       func()
	// began is at which moment the shard's members were those whose objects are in it.
	// Tidied is at which moment it was looked whether anything is in it of those who left.
	began, tidied int64
	// joinedEmpty is at which moment an app cluster joined that came later, and had nothing
	// then.
	joinedEmpty map[string]int64
	// replaces is the listing in whose place this one comes: what is the same in it was told.
	replaces atomic.Pointer[listing]
}

func (l *listing) isSynced() bool {
	select {
	case <-l.synced:
		return true
	default:
		return false
	}
}

// includes reports whether all objects are in it of an app cluster that joined at a
// moment.
func (l *listing) includes(clusterID string, joined int64) bool {
	return joined <= l.began || l.joinedEmpty[clusterID] == joined
}

// byCluster is the index of objects by the app cluster that their label names.
const byCluster = "cluster"

func clusterOf(object any) ([]string, error) {
	if c, ok := object.(*cachedObject); ok {
		return []string{c.cluster()}, nil
	}
	return nil, nil
}

// settle has the next listing of a kind take the place of the current one, once it is
// there. The caller holds o.mu.
func (o *Objects) settle(k *kind) {
	if k.next == nil || !k.next.isSynced() {
		return
	}
	before := k.current
	if before.stop != nil {
		before.stop()
	}
	close(before.superseded)
	k.current, k.next = k.next, nil
	k.current.replaces.Store(nil)
	// The watch that ends may not have told of all that was deleted, and the new one knows
	// nothing of it.
	for _, object := range before.objects.List() {
		c, ok := object.(*cachedObject)
		if !ok || !isKept(o.members, c.Namespace, c.cluster()) {
			continue
		}
		if _, isThere, err := k.current.objects.GetByKey(c.Namespace + "/" + c.Name); err == nil && !isThere {
			o.tell(k, c, true)
		}
	}
}

// tell has a claim looked at whose object changed.
func (o *Objects) tell(k *kind, c *cachedObject, now bool) {
	if id, key, ok := tenant.Origin(k.binding, c.Namespace, c.Name, c.GetLabels()); ok {
		o.changed(id, key, now)
	}
}

// has reports whether objects of an app cluster are kept: what it had before it left and
// joined again.
func (k *kind) has(clusterID string) bool {
	// The only error is that there is no such index.
	keys, _ := k.current.objects.IndexKeys(byCluster, clusterID)
	return len(keys) > 0
}

// hasOthers reports whether objects are kept of clusters that are no members.
func (k *kind) hasOthers(m Members) bool {
	for _, object := range k.current.objects.List() {
		if c, ok := object.(*cachedObject); ok && !isKept(m, c.Namespace, c.cluster()) {
			return true
		}
	}
	return false
}

// list begins to list a kind. The caller holds o.mu.
func (o *Objects) list(k *kind) (*listing, error) {
	// Who joins from now on may be missing in it.
	began, _ := o.members.Moment()
	informer, err := informers.New(o.config, k.resource, o.selector, o.decode)
	if err != nil {
		return nil, err
	}
	if err := informer.AddIndexers(toolscache.Indexers{byCluster: clusterOf}); err != nil {
		return nil, err
	}
	l := &listing{informer: informer, objects: informer.GetIndexer(), failed: make(chan struct{}), superseded: make(chan struct{}), began: began, joinedEmpty: map[string]int64{}}
	l.replaces.Store(k.current)
	tell := func(object any, now bool) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		c, ok := object.(*cachedObject)
		if !ok || !now && l.replaces.Load().isSame(c) {
			return
		}
		o.tell(k, c, now)
	}
	told, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(u any, initial bool) { tell(u, !initial) },
		UpdateFunc: func(_, u any) { tell(u, true) },
		DeleteFunc: func(u any) { tell(u, true) },
	})
	if err != nil {
		return nil, err
	}
	l.synced = told.HasSyncedChecker().Done()
	fail := sync.OnceFunc(func() { close(l.failed) })
	time.AfterFunc(informers.SyncTimeout, fail)
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
		fail()
	}); err != nil {
		return nil, err
	}
	if o.run != nil {
		o.run(l)
	} else {
		o.waiting = append(o.waiting, l)
	}
	return l, nil
}

// isSame reports whether an object is in a listing as it is: that was told.
func (l *listing) isSame(c *cachedObject) bool {
	if l == nil {
		return false
	}
	object, ok, err := l.objects.GetByKey(c.Namespace + "/" + c.Name)
	known, isObject := object.(*cachedObject)
	return err == nil && ok && isObject && known.UID == c.UID && known.ResourceVersion == c.ResourceVersion
}
