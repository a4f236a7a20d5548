// Package heartbeat says of each app cluster whether its konnector keeps in
// touch: the condition Connected, and when it was here last. It takes for a
// contact what access lets in, and asks no konnector for anything: an agent that
// fetches and listens to events is heard of by itself. It also says of which clusters two
// live copies are known: the condition Copied.
//
// It refuses to flap: nothing is written while nothing changes, and a backend
// that was away itself says nothing of others before they had time to come back.
package heartbeat

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/metrics"
	"gitbind.dev/gitbridge/status"
)

// part has an owner of its own: the rest of the backend's status is written by
// others, at other times.
var part = status.Part{Owner: "gitbind-backend-heartbeat", Fields: []string{"lastSeen"}, Conditions: []string{v1alpha1.ConditionConnected, v1alpha1.ConditionCopied}}

// Heartbeat watches over all clusters. New makes one, which is added to a manager.
type Heartbeat struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// Secrets reads the konnectors' Secrets from a cache.
	Secrets client.Reader
	// Heard is when a cluster's konnector was here last, since this process
	// began; zero when it was not.
	Heard func(cluster string) time.Time
	// Copied is whether two copies of a cluster are live, where said is what its
	// ClusterBinding says.
	Copied func(cluster string, said bool) bool
	Now    func() time.Time

	listening time.Time
	connected *prometheus.GaugeVec
	// counted are the clusters that connected has.
	counted map[string]bool
}

// New registers a metric beside.
func New(c client.Client, secrets client.Reader, heard func(cluster string) time.Time, copied func(cluster string, said bool) bool, to prometheus.Registerer) (*Heartbeat, error) {
	r := &metrics.Registry{Registerer: to}
	h := &Heartbeat{
		Client: c, Secrets: secrets, Heard: heard, Copied: copied, Now: time.Now,
		connected: r.Gauge("gitbind_konnector_connected", "1 where the cluster's konnector keeps in touch, 0 where it was not seen for five minutes: the condition Connected.", "cluster"),
	}
	return h, r.Err
}

// often is how often to look. What is looked at is in memory.
const often = 2 * time.Second

// Start looks at all clusters, again and again, until ctx ends.
func (h *Heartbeat) Start(ctx context.Context) error {
	h.listening = h.Now()
	_ = wait.PollUntilContextCancel(ctx, often, false, func(ctx context.Context) (bool, error) {
		h.look(ctx)
		return false, nil
	})
	return nil
}

// look writes what is new. What cannot be written now is new the next time, too.
func (h *Heartbeat) look(ctx context.Context) {
	var list v1alpha1.ClusterBindingList
	// Nothing of it is changed here.
	if err := h.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	h.count(list.Items)
	for i := range list.Items {
		cb := &list.Items[i]
		if cb.DeletionTimestamp != nil {
			continue
		}
		f := of(cb, h.Heard(cb.Name), h.listening, h.Now())
		f.ended = f.now.Sub(f.heard) >= Patience && h.ended(ctx, cb.Name)
		w, news := decide(f)
		copied := h.Copied(cb.Name, cb.IsCopied())
		if !news && copied == cb.IsCopied() {
			continue
		}
		if err := h.write(ctx, cb, w, copied); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("A heartbeat is not written yet", "cluster", cb.Name, "reason", err.Error())
		}
	}
}

// ended reports whether a cluster's credential was ended. One that expired was not, and of a
// Secret that is not there nothing is known.
func (h *Heartbeat) ended(ctx context.Context, cluster string) bool {
	var s corev1.Secret
	err := h.Secrets.Get(ctx, client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: v1alpha1.KonnectorSecret}, &s)
	return err == nil && credential.ReadRecord(s.Data) == (credential.Record{})
}

// count brings the metric in step with the conditions. A cluster whose konnector was never seen is
// not counted, nor one that left: nobody could end the alert.
func (h *Heartbeat) count(all []v1alpha1.ClusterBinding) {
	before := h.counted
	h.counted = map[string]bool{}
	for _, cb := range all {
		c := meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionConnected)
		if cb.DeletionTimestamp != nil || c == nil || c.Status == metav1.ConditionUnknown || c.Reason == disconnected {
			continue
		}
		value := 0.0
		if c.Status == metav1.ConditionTrue {
			value = 1
		}
		h.connected.WithLabelValues(cb.Name).Set(value)
		h.counted[cb.Name] = true
	}
	for cluster := range before {
		if !h.counted[cluster] {
			h.connected.DeleteLabelValues(cluster)
		}
	}
}

func (h *Heartbeat) write(ctx context.Context, cb *v1alpha1.ClusterBinding, w word, copied bool) error {
	want := cb.DeepCopy()
	if !w.lastSeen.IsZero() {
		want.Status.LastSeen = new(metav1.NewTime(w.lastSeen))
	}
	if w.condition.Type != "" {
		status.Set(want, w.condition, h.Now())
	}
	if copied {
		status.Set(want, copiedCondition(cb.Name), h.Now())
	} else {
		meta.RemoveStatusCondition(&want.Status.Conditions, v1alpha1.ConditionCopied)
	}
	return client.IgnoreNotFound(part.Write(ctx, h.Client, cb, want))
}
