// Package unattended says of each app cluster whether a bridge may follow it: the condition
// Unattended, which is there only where none of its shard runs. A bridge cannot say so of
// itself. It starts and moves nothing.
package unattended

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/metrics"
	"gitbind.dev/gitbridge/status"
)

// part has an owner of its own, as the rest is written by others, at other times.
var part = status.Part{Owner: "gitbind-backend-shards", Conditions: []string{v1alpha1.ConditionUnattended}}

// Leases tells whether somebody may hold a Lease, and whether there is one.
type Leases interface {
	State(ctx context.Context, namespace, name string) (held, exists bool, err error)
}

// Shards watches over the shards of all clusters. It is added to a manager.
type Shards struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	Leases Leases
	Now    func() time.Time
	// Given are shards that are looked at though they may have no clusters yet.
	Given []string

	// free are the shards of which no bridge runs, as the last look found.
	free    atomic.Pointer[map[string]bool]
	running *prometheus.GaugeVec
	shards  map[string]leased
	// waiting is since when a cluster waits to be handed over, by its name.
	waiting map[string]time.Time
}

// leased is a shard's Lease: since when it is looked at, or was seen to be taken, and
// since when nobody holds it, zero when somebody does.
type leased struct {
	since, free time.Time
	// exists is whether there is one. A bridge that runs with --leader-elect=false has none.
	exists bool
	// taken is whether it was seen that somebody took it.
	taken bool
}

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitbind-system,resources=leases,verbs=get

// New registers a metric beside.
func New(c client.Client, leases Leases, to prometheus.Registerer) (*Shards, error) {
	r := &metrics.Registry{Registerer: to}
	s := &Shards{
		Client: c, Leases: leases, Now: time.Now, shards: map[string]leased{}, waiting: map[string]time.Time{},
		running: r.Gauge("gitbind_shard_running", "1 where a bridge of the shard runs, 0 where nobody holds its Lease: its app clusters have the condition Unattended.", "shard"),
	}
	return s, r.Err
}

// interval is between two looks. Each reads the Lease of each shard.
const interval = 5 * time.Second

// Start looks at all shards, again and again, until ctx ends.
func (s *Shards) Start(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, interval, false, func(ctx context.Context) (bool, error) {
		s.look(ctx)
		return false, nil
	})
	return nil
}

// look writes what is new. What cannot be read or written now is new the next time, too.
func (s *Shards) look(ctx context.Context) {
	var list v1alpha1.ClusterBindingList
	// Nothing of it is changed here.
	if err := s.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	known, waiting := map[string]bool{}, map[string]time.Time{}
	for _, shard := range s.Given {
		known[shard] = s.lookAt(ctx, shard)
	}
	for i := range list.Items {
		shard := list.Items[i].Shard()
		if _, ok := known[shard]; !ok {
			known[shard] = s.lookAt(ctx, shard)
		}
	}
	if _, ok := known[v1alpha1.DefaultShard]; ok && len(known) == 1 && !s.shards[v1alpha1.DefaultShard].exists {
		// Whether the only bridge runs is not known. What was said stays.
		known[v1alpha1.DefaultShard] = false
		s.running.DeleteLabelValues(v1alpha1.DefaultShard)
	}
	for shard := range s.shards {
		if _, ok := known[shard]; !ok {
			delete(s.shards, shard)
			s.running.DeleteLabelValues(shard)
		}
	}
	free := map[string]bool{}
	for shard, isSure := range known {
		free[shard] = isSure && !s.shards[shard].free.IsZero()
	}
	s.free.Store(&free)
	for i := range list.Items {
		cb := &list.Items[i]
		f := facts{now: s.Now(), shard: cb.Shard(), by: cb.FollowedBy(), free: s.shards[cb.Shard()].free}
		if f.by != "" && f.by != f.shard {
			f.waiting = s.waitingSince(cb)
			waiting[cb.Name] = f.waiting
		}
		if cb.DeletionTimestamp != nil || !known[f.shard] {
			continue
		}
		if err := s.write(ctx, cb, f); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("What is known of a cluster's shard is not written yet", "cluster", cb.Name, "reason", err.Error())
		}
	}
	s.waiting = waiting
}

// IsFree reports whether no bridge of a shard runs, as far as is known.
func (s *Shards) IsFree(shard string) bool {
	free := s.free.Load()
	return free != nil && (*free)[shard]
}

// waitingSince is when a cluster began to wait to be handed over. A backend that was
// started since knows it from what it said.
func (s *Shards) waitingSince(cb *v1alpha1.ClusterBinding) time.Time {
	said := meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionUnattended)
	switch since, ok := s.waiting[cb.Name]; {
	case ok:
		return since
	case said != nil && said.Reason == notHandedOver:
		// Since then or longer; the condition's time may be of a clock that was ahead.
		return s.Now().Add(-handOverTimeout)
	}
	return s.Now()
}

// renewalTimeout is longer than a Lease lasts: one that counts as held for that long is
// renewed. Before, it may only not have been seen for long enough.
const renewalTimeout = 20 * time.Second

// lookAt notes whether a shard's Lease is held, and reports whether that is so for long
// enough to say so: until then, what was said stays.
func (s *Shards) lookAt(ctx context.Context, shard string) bool {
	held, exists, err := s.Leases.State(ctx, v1alpha1.SystemNamespace, v1alpha1.ShardLease(shard))
	if err != nil {
		return false
	}
	l, ok := s.shards[shard]
	running := 1.0
	switch {
	case !held && l.free.IsZero():
		l.free = s.Now()
	case !held:
	case !ok:
		l.since = s.Now()
	case !l.free.IsZero():
		l = leased{since: s.Now(), taken: true}
	}
	if !held {
		running = 0
	}
	l.exists = exists
	s.shards[shard] = l
	s.running.WithLabelValues(shard).Set(running)
	if held {
		return l.taken || s.Now().Sub(l.since) >= renewalTimeout
	}
	return s.Now().Sub(l.free) >= standbyTimeout
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
