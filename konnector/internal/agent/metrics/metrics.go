// Package metrics are the konnector's numbers for Prometheus, beside those of the Git
// engine. docs/operating.md lists them: their names, labels and help texts are what
// operators build on.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"gitbind.dev/gitbridge/contract"
	shared "gitbind.dev/gitbridge/metrics"
	"gitbind.dev/gitbridge/store"
)

// Konnector are the konnector's numbers.
type Konnector struct {
	git            shared.Git
	claims, held   *prometheus.GaugeVec
	actions, holds *prometheus.CounterVec
}

// NewKonnector registers the konnector's numbers. It may be called again in a
// process.
func NewKonnector(to prometheus.Registerer) (*Konnector, error) {
	r := &shared.Registry{Registerer: to}
	k := &Konnector{
		git:     shared.NewGit(r),
		claims:  r.Gauge("gitbind_konnector_claims", "Claims by where they are: InSync (object and file agree), Waiting (for Git, or until a service is gone), Rejected (the Git host's rules refuse the commit), AwaitingReview (a change is proposed, and nobody has approved it) or Held.", "cluster", "binding", "state"),
		held:    r.Gauge("gitbind_konnector_held", "Claims that wait for a person at present, by reason. ManyRemovals are removals that the breaker holds.", "cluster", "binding", "reason"),
		actions: r.Counter("gitbind_konnector_actions_total", "What was done to bring claims and files in step, by the word of the decision: Commit, Write, Create, Delete …", "cluster", "binding", "action"),
		holds:   r.Counter("gitbind_konnector_holds_total", "Claims that began to wait for a person, by reason. ManyRemovals are trips of the breaker.", "cluster", "binding", "reason"),
	}
	return k, r.Err
}

// Repository observes the repository of one cluster; it is nil of nil.
func (k *Konnector) Repository(cluster string) store.Observer {
	if k == nil {
		return nil
	}
	return k.git.Observer(cluster)
}

// Of gives the numbers of one binding of one cluster.
func (k *Konnector) Of(cluster, binding string) *KonnectorBinding {
	if k == nil {
		return nil
	}
	// From zero, as Prometheus sees no increase in a series that begins with its first event.
	k.holds.WithLabelValues(cluster, binding, string(contract.ManyRemovals))
	return &KonnectorBinding{all: k, cluster: cluster, binding: binding, claims: shared.NewClaims(k.claims, cluster), held: shared.NewClaims(k.held, cluster)}
}

// KonnectorBinding are the numbers of one binding. Methods of nil do nothing.
type KonnectorBinding struct {
	all              *Konnector
	cluster, binding string
	claims, held     *shared.Claims
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
	k.held.Set(claim, k.binding, reason)
	if was := k.claims.Set(claim, k.binding, state); reason != "" && was != state {
		k.all.holds.WithLabelValues(k.cluster, k.binding, reason).Inc()
	}
}

// Forget takes out the claims of a binding that is not worked on any more.
func (k *KonnectorBinding) Forget() {
	if k != nil {
		k.claims.Forget("")
		k.held.Forget("")
	}
}
