// Package metrics are gitbridge's numbers for Prometheus, beside those of the Git
// engine. docs/operating.md lists them: their names, labels and help texts are what
// operators build on.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitbind.dev/gitbridge/contract"
	shared "gitbind.dev/gitbridge/metrics"
	"gitbind.dev/gitbridge/store"
)

// Bridge are gitbridge's numbers.
type Bridge struct {
	git                     shared.Git
	claims, held, following *prometheus.GaugeVec
	apply, status           *prometheus.HistogramVec
	drift, holds            *prometheus.CounterVec
}

// NewBridge registers gitbridge's numbers. It may be called again in a process.
func NewBridge(to prometheus.Registerer) (*Bridge, error) {
	r := &shared.Registry{Registerer: to}
	b := &Bridge{
		git:       shared.NewGit(r),
		claims:    r.Gauge("gitbind_bridge_claims", "Claims by what their ClaimStatus says: its result, or Contested for those that are applied and that somebody on the control plane keeps changing.", "cluster", "binding", "result"),
		held:      r.Gauge("gitbind_bridge_held", "Claims that wait for a person at present, by reason, and those that are Contested. ManyRemovals are removals that the breaker holds.", "cluster", "binding", "reason"),
		following: r.Gauge("gitbind_bridge_following", "1 where the cluster's repository is followed, 0 where it is held or cannot be reached: the condition Synced says why.", "cluster"),
		apply:     r.Histogram("gitbind_bridge_apply_seconds", "From when a commit on main was seen until its claim was applied.", "cluster"),
		status:    r.Histogram("gitbind_bridge_status_seconds", "From when a status change was seen on the control plane until the Git host had it.", "cluster"),
		drift:     r.Counter("gitbind_bridge_drift_corrections_total", "Claims of which somebody on the control plane changed what was applied, and that were set back.", "cluster", "binding"),
		holds:     r.Counter("gitbind_bridge_holds_total", "Claims that began to wait for a person: Held, Lost or Contested, with the reason. ManyRemovals are trips of the breaker.", "cluster", "binding", "reason"),
	}
	return b, r.Err
}

// Repository observes the repository of one cluster; it is nil of nil.
func (b *Bridge) Repository(cluster string) store.Observer {
	if b == nil {
		return nil
	}
	return b.git.Observer(cluster)
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

// Unfollows says that a cluster is not to be followed, or not any more.
func (b *Bridge) Unfollows(cluster string) {
	if b != nil {
		b.following.DeleteLabelValues(cluster)
	}
}

// Forget deletes all numbers of a cluster that is gone, or another bridge's. What still works
// for it has to have ended.
func (b *Bridge) Forget(cluster string) {
	if b != nil {
		b.git.Forget(cluster)
		shared.ForgetCluster(cluster, b.claims.MetricVec, b.held.MetricVec, b.following.MetricVec, b.apply.MetricVec, b.status.MetricVec, b.drift.MetricVec, b.holds.MetricVec)
	}
}

// Of gives the numbers of one cluster.
func (b *Bridge) Of(cluster string) *BridgeCluster {
	return &BridgeCluster{all: b, cluster: cluster, claims: shared.NewClaims(b.claims, cluster), held: shared.NewClaims(b.held, cluster)}
}

// BridgeCluster are the numbers of one cluster. Methods of nil do nothing.
type BridgeCluster struct {
	all          *Bridge
	cluster      string
	claims, held *shared.Claims
}

// Answered says what a path of main is answered with; "" for nothing. Reason
// says why it waits for a person, "" if it does not.
func (b *BridgeCluster) Answered(path, binding, result, reason string) {
	if b == nil {
		return
	}
	// From zero, as Prometheus sees no increase in a series that begins with its first event.
	b.all.holds.WithLabelValues(b.cluster, binding, string(contract.ManyRemovals))
	b.held.Set(path, binding, reason)
	if was := b.claims.Set(path, binding, result); reason != "" && was != result {
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
		b.held.Forget("")
	}
}
