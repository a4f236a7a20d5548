// Package shard tells which app clusters are of the shard of this bridge: what its
// caches keep. It does not say that this bridge may write for them: another one may
// still have to hand one over, see controller/clusterbinding.
package shard

import (
	"context"
	"fmt"
	"strings"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Members are the app clusters of one shard: those that are to be followed by it, and
// those that still are.
type Members struct {
	known <-chan struct{}

	mu sync.RWMutex
	// moment counts those who joined and left; joined is at which each did.
	moment, left int64
	joined       map[string]int64
}

// Watch has the members of a shard known as soon as the cache is filled. Joined is told of
// each that joins, also of one that is back so soon that nobody else saw it leave: what
// happened to it meanwhile was not kept.
func Watch(ctx context.Context, objects cache.Cache, shard string, joined func(cluster string)) (*Members, error) {
	m := &Members{joined: map[string]int64{}}
	informer, err := objects.GetInformer(ctx, &v1alpha1.ClusterBinding{})
	if err != nil {
		return nil, fmt.Errorf("watch ClusterBindings: %w", err)
	}
	put := func(object any) {
		if b, ok := object.(*v1alpha1.ClusterBinding); ok && m.put(b.Name, b.Shard() == shard || b.FollowedBy() == shard) {
			joined(b.Name)
		}
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, object any) { put(object) },
		// One that is deleted did not leave: its objects may be there for longer.
	})
	if err != nil {
		return nil, fmt.Errorf("watch ClusterBindings: %w", err)
	}
	m.known = handler.HasSyncedChecker().Done()
	return m, nil
}

// put notes whether a cluster is a member, and reports whether it joined.
func (m *Members) put(cluster string, isMember bool) (joined bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, was := m.joined[cluster]
	switch {
	case isMember && !was:
		m.moment++
		m.joined[cluster] = m.moment
	case !isMember && was:
		m.moment++
		m.left = m.moment
		delete(m.joined, cluster)
	}
	return isMember && !was
}

// Known is closed when those are known that were there at the start.
func (m *Members) Known() <-chan struct{} { return m.known }

// Has reports whether an app cluster is of this shard.
func (m *Members) Has(cluster string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.joined[cluster]
	return ok
}

// Joined is at which moment an app cluster joined; ok is false for one that is not of
// this shard. Moments begin with 1 and grow.
func (m *Members) Joined(cluster string) (moment int64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	moment, ok = m.joined[cluster]
	return moment, ok
}

// Moment is the one of the last change, and left the last at which somebody left.
func (m *Members) Moment() (last, left int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.moment, m.left
}

// HasNamespace reports whether a namespace is a tenant namespace or a claim namespace of
// this shard. (An id that is so long that its claim namespaces cut it is not known by
// them.)
func (m *Members) HasNamespace(namespace string) bool {
	rest, ok := strings.CutPrefix(namespace, v1alpha1.TenantNamespace(""))
	cluster, _, _ := strings.Cut(rest, "-")
	return ok && m.Has(cluster)
}
