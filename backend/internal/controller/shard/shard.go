// Package shard says of each app cluster whether a bridge may follow it: the condition
// Unattended, which is there only where none of its shard runs. A bridge cannot say so of
// itself. It starts and moves nothing.
package shard

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/metrics"
	"gitbind.dev/gitbridge/status"
)

// part has an owner of its own, as the rest is written by others, at other times.
var part = status.Part{Owner: "gitbind-backend-shards", Conditions: []string{v1alpha1.ConditionUnattended}}

// Leases tells whether somebody holds a Lease.
type Leases interface {
	Held(ctx context.Context, namespace, name string) (bool, error)
}

// Shards watches over the shards of all clusters. It is added to a manager.
type Shards struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	Leases Leases
	Now    func() time.Time

	running *prometheus.GaugeVec
	// free is since when nobody holds a shard's Lease, by shard, and waiting since when a
	// cluster waits to be handed over, by its name.
	free, waiting map[string]time.Time
}

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitbind-system,resources=leases,verbs=get

// New registers a metric beside.
func New(c client.Client, leases Leases, to prometheus.Registerer) (*Shards, error) {
	r := &metrics.Registry{Registerer: to}
	s := &Shards{
		Client: c, Leases: leases, Now: time.Now, free: map[string]time.Time{}, waiting: map[string]time.Time{},
		running: r.Gauge("gitbind_shard_running", "1 where a bridge of the shard runs, 0 where nobody holds its Lease: its app clusters have the condition Unattended.", "shard"),
	}
	return s, r.Err
}

// interval is between two looks. Each reads the Lease of each shard.
const interval = 5 * time.Second

// Start looks at all shards, again and again, until ctx ends.
func (s *Shards) Start(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.look(ctx)
		}
	}
}

// look writes what is new. What cannot be read or written now is new the next time, too.
func (s *Shards) look(ctx context.Context) {
	var list v1alpha1.ClusterBindingList
	// Nothing of it is changed here.
	if err := s.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	known, shards := map[string]bool{}, map[string]bool{}
	for i := range list.Items {
		shards[list.Items[i].Shard()] = true
	}
	for shard := range shards {
		known[shard] = s.lookAt(ctx, shard)
	}
	for shard := range s.free {
		if !shards[shard] {
			delete(s.free, shard)
			s.running.DeleteLabelValues(shard)
		}
	}
	waiting := map[string]time.Time{}
	for i := range list.Items {
		cb := &list.Items[i]
		if by := cb.FollowedBy(); by != "" && by != cb.Shard() {
			if waiting[cb.Name] = s.waiting[cb.Name]; waiting[cb.Name].IsZero() {
				waiting[cb.Name] = s.Now()
			}
		}
		if cb.DeletionTimestamp != nil || !known[cb.Shard()] {
			continue
		}
		f := facts{now: s.Now(), shard: cb.Shard(), by: cb.FollowedBy(), free: s.free[cb.Shard()], waiting: waiting[cb.Name]}
		if err := s.write(ctx, cb, f); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("What is known of a cluster's shard is not written yet", "cluster", cb.Name, "reason", err.Error())
		}
	}
	s.waiting = waiting
}

// lookAt notes whether a shard's Lease is held, and reports whether that is known.
func (s *Shards) lookAt(ctx context.Context, shard string) bool {
	held, err := s.Leases.Held(ctx, v1alpha1.SystemNamespace, v1alpha1.ShardLease(shard))
	switch since, ok := s.free[shard]; {
	case err != nil:
		return false
	case held:
		s.free[shard] = time.Time{}
	case !ok || since.IsZero():
		s.free[shard] = s.Now()
	}
	running := 0.0
	if held {
		running = 1
	}
	s.running.WithLabelValues(shard).Set(running)
	return true
}

func (s *Shards) write(ctx context.Context, cb *v1alpha1.ClusterBinding, f facts) error {
	want := cb.DeepCopy()
	if c := decide(cb.Name, f); c != nil {
		status.Set(want, *c, s.Now())
	} else {
		meta.RemoveStatusCondition(&want.Status.Conditions, v1alpha1.ConditionUnattended)
	}
	return client.IgnoreNotFound(part.Write(ctx, s.Client, cb, want))
}
