package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitbind.dev/gitbridge/store"
)

// Bridge are gitbridge's numbers.
type Bridge struct {
	Git
	claims, following *prometheus.GaugeVec
	apply, status     *prometheus.HistogramVec
	drift, holds      *prometheus.CounterVec
}

// NewBridge registers gitbridge's numbers. It may be called again in a process.
func NewBridge(to prometheus.Registerer) (*Bridge, error) {
	r := &registry{Registerer: to}
	b := &Bridge{
		Git:       newGit(r),
		claims:    r.gauge("gitbind_bridge_claims", "Claims by what their ClaimStatus says.", "cluster", "binding", "result"),
		following: r.gauge("gitbind_bridge_following", "1 where the cluster's repository is followed, 0 where it is held or cannot be reached: the condition Synced says why.", "cluster"),
		apply:     r.histogram("gitbind_bridge_apply_seconds", "From when a commit on main was seen until its claim was applied.", "cluster"),
		status:    r.histogram("gitbind_bridge_status_seconds", "From when a status change was seen on the control plane until the Git host had it.", "cluster"),
		drift:     r.counter("gitbind_bridge_drift_corrections_total", "Claims of which somebody on the control plane changed what was applied, and that were set back.", "cluster", "binding"),
		holds:     r.counter("gitbind_bridge_holds_total", "Claims that began to wait for a person: Held, Lost or Contested, with the reason. ManyRemovals are trips of the breaker.", "cluster", "binding", "reason"),
	}
	return b, r.err
}

// Repository observes the repository of one cluster; it is nil of nil.
func (b *Bridge) Repository(cluster string) store.Observer {
	if b == nil {
		return nil
	}
	return observer{b.Git, cluster}
}

// Follows says whether a cluster's repository can be followed.
func (b *Bridge) Follows(cluster string, works bool) {
	if b == nil {
		return
	}
	value := 0.0
	if works {
		value = 1
	}
	b.following.WithLabelValues(cluster).Set(value)
}

// Unfollows says that a cluster is not to be followed any more.
func (b *Bridge) Unfollows(cluster string) {
	if b != nil {
		b.following.DeleteLabelValues(cluster)
	}
}

// Of gives the numbers of one cluster.
func (b *Bridge) Of(cluster string) *BridgeCluster {
	return &BridgeCluster{all: b, cluster: cluster, claims: &Claims{gauge: b.claims, cluster: cluster, known: map[string][2]string{}}}
}

// BridgeCluster are the numbers of one cluster. Methods of nil do nothing.
type BridgeCluster struct {
	all     *Bridge
	cluster string
	claims  *Claims
}

// Answered says what a path of main is answered with; "" for nothing. Reason
// says why it waits for a person, "" if it does not.
func (b *BridgeCluster) Answered(path, binding, result, reason string) {
	if b == nil {
		return
	}
	now := result
	if was := b.claims.Set(path, binding, now); reason != "" && was != now {
		b.all.holds.WithLabelValues(b.cluster, binding, reason).Inc()
	}
}

// Applied counts a commit that reached the control plane.
func (b *BridgeCluster) Applied(took time.Duration) {
	if b != nil {
		b.all.apply.WithLabelValues(b.cluster).Observe(took.Seconds())
	}
}

// StatusPushed counts a change of status that reached the Git host.
func (b *BridgeCluster) StatusPushed(took time.Duration) {
	if b != nil {
		b.all.status.WithLabelValues(b.cluster).Observe(took.Seconds())
	}
}

// Corrected counts a correction of drift.
func (b *BridgeCluster) Corrected(binding string) {
	if b != nil {
		b.all.drift.WithLabelValues(b.cluster, binding).Inc()
	}
}

// Forget takes out the claims of a cluster that is not followed any more.
func (b *BridgeCluster) Forget() {
	if b != nil {
		b.claims.Forget("")
	}
}

// Konnector are the konnector's numbers.
type Konnector struct {
	Git
	claims         *prometheus.GaugeVec
	actions, holds *prometheus.CounterVec
}

// NewKonnector registers the konnector's numbers. It may be called again in a
// process.
func NewKonnector(to prometheus.Registerer) (*Konnector, error) {
	r := &registry{Registerer: to}
	k := &Konnector{
		Git:     newGit(r),
		claims:  r.gauge("gitbind_konnector_claims", "Claims by where they are: InSync (object and file agree), Waiting (for Git, or until a service is gone) or Held.", "cluster", "binding", "state"),
		actions: r.counter("gitbind_konnector_actions_total", "What was done to bring claims and files in step, by the word of the decision: Commit, Write, Create, Delete …", "cluster", "binding", "action"),
		holds:   r.counter("gitbind_konnector_holds_total", "Claims that began to wait for a person, by reason. ManyRemovals are trips of the breaker.", "cluster", "binding", "reason"),
	}
	return k, r.err
}

// Repository observes the repository of one cluster; it is nil of nil.
func (k *Konnector) Repository(cluster string) store.Observer {
	if k == nil {
		return nil
	}
	return observer{k.Git, cluster}
}

// Of gives the numbers of one binding of one cluster.
func (k *Konnector) Of(cluster, binding string) *KonnectorBinding {
	if k == nil {
		return nil
	}
	return &KonnectorBinding{all: k, cluster: cluster, binding: binding, claims: &Claims{gauge: k.claims, cluster: cluster, known: map[string][2]string{}}}
}

// KonnectorBinding are the numbers of one binding. Methods of nil do nothing.
type KonnectorBinding struct {
	all              *Konnector
	cluster, binding string
	claims           *Claims
}

// Did counts an action.
func (k *KonnectorBinding) Did(action string) {
	if k != nil {
		k.all.actions.WithLabelValues(k.cluster, k.binding, action).Inc()
	}
}

// Is says where a claim is, "" for no claim any more. Reason says why it waits
// for a person, "" if it does not.
func (k *KonnectorBinding) Is(claim, state, reason string) {
	if k == nil {
		return
	}
	if was := k.claims.Set(claim, k.binding, state); reason != "" && was != state {
		k.all.holds.WithLabelValues(k.cluster, k.binding, reason).Inc()
	}
}

// Forget takes out the claims of a binding that is not worked on any more.
func (k *KonnectorBinding) Forget() {
	if k != nil {
		k.claims.Forget("")
	}
}
