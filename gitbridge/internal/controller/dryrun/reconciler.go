// Package dryrun answers DryRuns: what the control plane would make of the claims of a proposed
// change. The claims are tried as the tenant, by the session of their app cluster, and nothing
// but the answer is written. Each cluster has its pace, whatever its people propose.
package dryrun

import (
	"context"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/status"
)

const (
	// keptFor is how long a DryRun stays after it was asked for.
	keptFor = 24 * time.Hour
	// perClaim is how long a cluster waits, for each claim that was tried, until others are.
	perClaim = 200 * time.Millisecond
	// claimTimeout is how long one claim may take, after which no others of its DryRun are
	// tried, and timeout how long all of them may.
	claimTimeout, timeout = 10 * time.Second, 30 * time.Second
	// unfollowed is how long to wait for a repository to be followed.
	unfollowed = 10 * time.Second
	// workers is how many DryRuns are answered at the same time, each of another cluster.
	workers = 8
	// maxWords bounds the words on one claim, in characters, fewWords those for which there is
	// no room, and maxAnswerBytes words and fields of all, as v1alpha1.EncodedSize counts.
	maxWords, fewWords, maxAnswerBytes = 2000, 100, 256 << 10
)

// Reconciler answers DryRuns.
type Reconciler struct {
	Client client.Client
	// Server reads from the API server: the cache has DryRuns as Slim leaves them.
	Server   client.Reader
	Sessions *session.Registry
	// IsOurs reports whether a tenant namespace is of a cluster of this bridge's shard.
	IsOurs func(namespace string) bool
	Now    func() time.Time
	// Events has those come again that Joined finds.
	Events chan event.GenericEvent

	mu sync.Mutex
	// next is when claims of a tenant namespace may be tried again.
	next map[string]time.Time
}

// Slim takes from a DryRun what only Reconcile reads.
func Slim(object any) (any, error) {
	if d, ok := object.(*v1alpha1.DryRun); ok {
		d.ManagedFields, d.Spec.Claims, d.Status.Claims = nil, nil, nil
	}
	return object, nil
}

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("dryrun").
		For(&v1alpha1.DryRun{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Events, &handler.EnqueueRequestForObject{})).
		WithOptions(backoff.Controller(workers)).
		Complete(r)
}

// Joined has all of a cluster looked at: before it was of this shard, they were left to another
// bridge.
func (r *Reconciler) Joined(ctx context.Context, cluster string) {
	var all v1alpha1.DryRunList
	if err := r.Client.List(ctx, &all, client.InNamespace(v1alpha1.TenantNamespace(cluster))); err != nil {
		if ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Dry runs are not looked at", "cluster", cluster)
		}
		return
	}
	for i := range all.Items {
		select {
		case r.Events <- event.GenericEvent{Object: &all.Items[i]}:
		case <-ctx.Done():
			return
		}
	}
}

// Reconcile answers one DryRun.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var d v1alpha1.DryRun
	if err := r.Client.Get(ctx, req.NamespacedName, &d); err != nil || !r.IsOurs(req.Namespace) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Now()
	if left := d.Spec.AskedAt.Add(keptFor).Sub(now); left <= 0 {
		err := r.Client.Delete(ctx, &d, client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion})
		return ctrl.Result{}, client.IgnoreNotFound(err)
	} else if d.IsAnswered() {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	s := r.Sessions.In(req.Namespace)
	if s == nil || s.View().Main == nil || s.Stops.Why() != nil {
		return ctrl.Result{RequeueAfter: unfollowed}, nil
	}
	if wait := r.begin(req.Namespace); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	tried := 0
	defer func() { r.end(req.Namespace, now, tried) }()
	if err := r.Server.Get(ctx, req.NamespacedName, &d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	want := d.DeepCopy()
	want.Status = v1alpha1.DryRunStatus{ObservedGeneration: d.Generation, TriedAt: new(metav1.NewTime(now)), Change: d.Spec.Change}
	want.Status.Claims, tried = try(ctx, s, d.Spec)
	if ctx.Err() != nil {
		return ctrl.Result{}, nil
	}
	if err := r.answer(ctx, &d, want); err != nil {
		// Something else may be asked for by now, which is tried then.
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: keptFor}, nil
}

// try tries claims until one takes too long, and says how many it has tried.
func try(ctx context.Context, s *session.Session, asked v1alpha1.DryRunSpec) (out []v1alpha1.TriedClaim, tried int) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	room := maxAnswerBytes
	tookTooLong := false
	for _, c := range asked.Claims {
		p := session.Proposed{Path: c.Path, Head: asked.Change.Head}
		if c.Content != "" {
			p.Data = []byte(c.Content)
		}
		t := session.Trial{Untried: session.TookTooLong, Transient: true}
		if !tookTooLong {
			one, cancel := context.WithTimeout(ctx, claimTimeout)
			t = s.DryRun(one, p)
			tookTooLong = one.Err() != nil
			cancel()
			tried++
		}
		out = append(out, told(c.Path, t, &room))
	}
	return out, tried
}

// answer writes an answer, without fields if it is still too large to be stored.
func (r *Reconciler) answer(ctx context.Context, d, want *v1alpha1.DryRun) error {
	err := status.Replace(ctx, r.Client, d, want)
	// The API server does not say it in one way: etcd's word is an internal error.
	if !apierrors.IsRequestEntityTooLargeError(err) && !apierrors.IsInternalError(err) {
		return err
	}
	for i := range want.Status.Claims {
		c := &want.Status.Claims[i]
		c.Fields, c.MoreFields = nil, c.MoreFields+len(c.Fields)
	}
	return status.Replace(ctx, r.Client, d, want)
}

// begin gives how long a cluster has to wait, or has others of it wait until end.
func (r *Reconciler) begin(namespace string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if wait := r.next[namespace].Sub(now); wait > 0 {
		return wait
	}
	if r.next == nil {
		r.next = map[string]time.Time{}
	}
	maps.DeleteFunc(r.next, func(_ string, at time.Time) bool { return !at.After(now) })
	r.next[namespace] = now.Add(timeout)
	return 0
}

// end has others of a cluster wait as long as the last one took, at least.
func (r *Reconciler) end(namespace string, began time.Time, tried int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	r.next[namespace] = now.Add(max(time.Duration(tried)*perClaim, now.Sub(began)))
}

// told is what is written of a claim, with the bytes that there is room for.
func told(path string, t session.Trial, room *int) v1alpha1.TriedClaim {
	out := v1alpha1.TriedClaim{Path: path, Refused: brief.Cut(t.Refused, maxWords), Untried: brief.Cut(t.Untried, maxWords), Transient: t.Transient, MoreFields: t.More}
	if *room -= v1alpha1.EncodedSize(out.Refused) + v1alpha1.EncodedSize(out.Untried); *room < 0 {
		out.Refused, out.Untried = brief.Cut(t.Refused, fewWords), brief.Cut(t.Untried, fewWords)
	}
	for i, f := range t.Fields {
		if *room -= v1alpha1.EncodedSize(f.Field) + v1alpha1.EncodedSize(f.Before) + v1alpha1.EncodedSize(f.After); *room < 0 {
			out.MoreFields += len(t.Fields) - i
			break
		}
		out.Fields = append(out.Fields, v1alpha1.FieldChange(f))
	}
	return out
}
