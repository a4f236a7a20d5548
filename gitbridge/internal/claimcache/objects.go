// Package claimcache watches the objects that the bridge has applied on the control
// plane, of whatever kinds. It keeps what decisions need of each: identity, what the
// bridge wrote on it, and its status. It sees only objects that carry the bridge's
// label, and keeps those of the app clusters of its shard.
//
// The API server sends the objects of all shards: a selector cannot name hundreds of app
// clusters, a label for the shard would have to be changed on each object when a cluster
// moves, and a watch for each cluster costs the API server more than each event that is
// read here and dropped.
package claimcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// Members are the app clusters whose objects are kept: see package shard.
type Members interface {
	// Known is closed when those are known that were there at the start.
	Known() <-chan struct{}
	Has(cluster string) bool
	HasNamespace(namespace string) bool
	Joined(cluster string) (moment int64, ok bool)
	Moment() (last, left int64)
}

// Objects are the watched objects of all app clusters of a shard.
type Objects struct {
	config   *rest.Config
	lists    rest.Interface
	selector labels.Selector
	members  Members
	// Bound are the resources that bindings of the members use; nil for all. It is to be set
	// before Start.
	Bound func(context.Context) (map[schema.GroupVersionResource]bool, error)
	// changed is told which claim of which cluster an object is that changed,
	// and whether it just did.
	changed func(clusterID string, key contract.Key, now bool)

	// asking is whether app clusters have objects.
	asking singleflight.Group

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kind
	// run starts an informer; nil until the process works.
	run     func(*listing)
	waiting []*listing
}

// New watches nothing yet. It must be started.
func New(config *rest.Config, members Members, changed func(clusterID string, key contract.Key, now bool)) (*Objects, error) {
	ours, err := labels.NewRequirement(tenant.ClusterLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	lists, err := informers.RESTClient(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to list objects: %w", err)
	}
	return &Objects{
		config: config, lists: lists, selector: labels.NewSelector().Add(*ours), members: members, changed: changed, kinds: map[schema.GroupVersionKind]*kind{},
	}, nil
}

// tidyInterval is between two looks whether objects of app clusters are kept that left, or
// kinds that no binding uses.
const tidyInterval = 30 * time.Second

// Start watches until ctx ends.
func (o *Objects) Start(ctx context.Context) error {
	var running sync.WaitGroup
	o.mu.Lock()
	o.run = func(l *listing) {
		if ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		l.stop = cancel
		running.Go(func() { l.informer.RunWithContext(ctx) })
	}
	for _, l := range o.waiting {
		o.run(l)
	}
	o.waiting = nil
	o.mu.Unlock()
	wait.UntilWithContext(ctx, o.tidy, tidyInterval)
	o.mu.Lock()
	defer o.mu.Unlock()
	running.Wait()
	return nil
}

// Watch begins to watch a kind, and returns when all objects of it that an app cluster
// has are known. It calls waits, if not nil, before it waits for anything, maybe repeatedly.
func (o *Objects) Watch(ctx context.Context, of schema.GroupVersionKind, binding, clusterID string, waits func()) error {
	if waits == nil {
		waits = func() {}
	}
	for {
		l, isComplete, err := o.listingWith(ctx, of, binding, clusterID, waits)
		if err != nil {
			return fmt.Errorf("watch %s: %w", binding, err)
		}
		if l.isSynced() {
			if isComplete {
				return nil
			}
			continue
		}
		waits()
		select {
		case <-l.synced:
		case <-l.superseded:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.failed:
			return fmt.Errorf("watch %s: its objects are not known yet: may the bridge list and watch them?", binding)
		}
	}
}

// listingWith is one that has what an app cluster has of a kind, or will have it. One that
// is not complete began too early for that: another one can follow when it is there.
func (o *Objects) listingWith(ctx context.Context, of schema.GroupVersionKind, binding, clusterID string, waits func()) (l *listing, isComplete bool, err error) {
	select {
	case <-o.members.Known():
	default:
		waits()
		select {
		case <-o.members.Known():
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	joined, ok := o.members.Joined(clusterID)
	if !ok {
		return nil, false, fmt.Errorf("cluster %s is not of this shard", clusterID)
	}
	k, l, err := o.find(of, binding, clusterID, joined)
	if l != nil || err != nil {
		return l, true, err
	}
	// It joined since the kind was listed. A new one has nothing, so that nothing is
	// missing. All that wait for its objects ask once.
	waits()
	has, err, _ := o.asking.Do(fmt.Sprintf("%s %s %d", of, clusterID, joined), func() (any, error) {
		return hasAny(ctx, o.lists, k.resource, clusterID)
	})
	if err != nil {
		return nil, false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kinds[of] != k {
		// It was dropped meanwhile.
		return k.current, false, nil
	}
	o.settle(k)
	if has, _ := has.(bool); has || k.has(clusterID) {
		if l, err = o.again(k); err != nil {
			return nil, false, err
		}
		return l, l.includes(clusterID, joined), nil
	}
	k.current.joinedEmpty[clusterID] = joined
	return k.current, true, nil
}

// find looks for a listing that is there; it makes the first one of a kind.
func (o *Objects) find(of schema.GroupVersionKind, binding, clusterID string, joined int64) (*kind, *listing, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.kinds[of]
	if k == nil {
		k = &kind{binding: binding, resource: schema.ParseGroupResource(binding).WithVersion(of.Version)}
		var err error
		if k.current, err = o.list(k); err != nil {
			return nil, nil, err
		}
		o.kinds[of] = k
	}
	k.unused = false
	o.settle(k)
	for _, l := range []*listing{k.current, k.next} {
		if l != nil && l.includes(clusterID, joined) {
			return k, l, nil
		}
	}
	return k, nil, nil
}

// again lists a kind once more, for those who joined since. What is there is used until
// that is done. The caller holds o.mu.
func (o *Objects) again(k *kind) (*listing, error) {
	if k.next != nil {
		// It is too late for that one: another one follows it.
		return k.next, nil
	}
	var err error
	k.next, err = o.list(k)
	return k.next, err
}

// tidy lists kinds again of which objects are kept whose app cluster left the shard, and drops
// those that no binding uses: an API that was bound in another version, or not at all any more.
func (o *Objects) tidy(ctx context.Context) {
	isBound := o.isBound(ctx)
	_, left := o.members.Moment()
	o.mu.Lock()
	defer o.mu.Unlock()
	for of, k := range o.kinds {
		switch wasUnused := k.unused; {
		case isBound(k.resource):
			k.unused = false
		case wasUnused:
			o.drop(of)
			continue
		default:
			// What was bound since it was asked is asked for in a moment.
			k.unused = true
		}
		if o.settle(k); k.next == nil && k.current.began < left && k.current.tidied < left {
			k.current.tidied = left
			if k.hasOthers(o.members) {
				_, _ = o.again(k)
			}
		}
	}
}

// isBound tells of a resource whether a binding uses it, also where that is not known.
func (o *Objects) isBound(ctx context.Context) func(schema.GroupVersionResource) bool {
	all := func(schema.GroupVersionResource) bool { return true }
	select {
	case <-o.members.Known():
	default:
		return all
	}
	if o.Bound == nil {
		return all
	}
	bound, err := o.Bound(ctx)
	if err != nil {
		return all
	}
	return func(r schema.GroupVersionResource) bool { return bound[r] }
}

// drop watches a kind no more. Who waits for its objects asks for the kind again. The caller
// holds o.mu.
func (o *Objects) drop(of schema.GroupVersionKind) {
	k := o.kinds[of]
	delete(o.kinds, of)
	for _, l := range []*listing{k.current, k.next} {
		if l == nil {
			continue
		}
		if l.stop != nil {
			l.stop()
		}
		close(l.superseded)
	}
}

// PathsOf are the paths of the claims of an app cluster, of one binding or with "" of all, of
// which there are objects, as far as these are known; each with the commit of main that the
// object says it was applied from.
func (o *Objects) PathsOf(clusterID, binding string) map[string]store.Hash {
	type known struct {
		binding string
		objects toolscache.Indexer
	}
	var all []known
	o.mu.Lock()
	for _, k := range o.kinds {
		if binding != "" && k.binding != binding {
			continue
		}
		o.settle(k)
		// Of one that just joined the current listing has nothing.
		for _, l := range []*listing{k.current, k.next} {
			if l != nil {
				all = append(all, known{k.binding, l.objects})
			}
		}
	}
	o.mu.Unlock()
	paths := map[string]store.Hash{}
	for _, k := range all {
		// The only error is that there is no such index.
		objects, _ := k.objects.ByIndex(byCluster, clusterID)
		for _, object := range objects {
			c, ok := object.(*cachedObject)
			if !ok {
				continue
			}
			if _, key, ok := tenant.Origin(k.binding, c.Namespace, c.Name, c.GetLabels()); ok {
				paths[key.Path()] = store.Hash(c.commit())
			}
		}
	}
	return paths
}

// Get is an object of a watched kind, nil if there is none. It has no spec.
func (o *Objects) Get(of schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	o.mu.Lock()
	var l *listing
	if k := o.kinds[of]; k != nil {
		o.settle(k)
		l = k.current
	}
	o.mu.Unlock()
	if l == nil || !l.isSynced() {
		return nil, fmt.Errorf("get %s %s/%s: the objects of this kind are not known yet", of.Kind, namespace, name)
	}
	object, ok, err := l.objects.GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil, err
	}
	c, ok := object.(*cachedObject)
	if !ok {
		return nil, fmt.Errorf("get %s %s/%s: the cache has a %T", of.Kind, namespace, name, object)
	}
	return c.object()
}
