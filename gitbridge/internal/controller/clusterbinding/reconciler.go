// Package clusterbinding follows the repository of each ClusterBinding of its shard that
// is ready, and says in its condition Synced how that goes. Deleting a
// ClusterBinding ends the following, and deletes nothing else. It begins none that the
// bridge of another shard may still follow.
package clusterbinding

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/gitbridge/internal/metrics"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
)

// Reconciler keeps one follower for each ClusterBinding.
type Reconciler struct {
	// Client reads from a cache; Server does not.
	Client client.Client
	Server client.Reader
	// Shard is the one whose ClusterBindings are followed.
	Shard string
	// Leases are those of the other shards.
	Leases Leases
	// BackendURL is where events come from; "" for none.
	BackendURL string
	// RootCAs are whom Git hosts and backend are trusted by; nil for the system's.
	RootCAs  *x509.CertPool
	Sessions *session.Registry
	// Claims works off the claims of a followed cluster until ctx ends.
	Claims func(tenant.Cluster) (Claims, error)
	// Keys are the bridge's public keys, for app clusters.
	Keys func(context.Context) (v1alpha1.EncryptionKeys, error)
	// CommitSigner signs the bridge's commits; nil if they are not to be signed.
	CommitSigner func(context.Context) (*signing.Signer, error)
	// Began is told when status of a cluster can be written.
	Began func(*session.Session)
	// Guard, if not nil, is put around what sends requests to Git, and refuses
	// those that this process must not send.
	Guard    func(http.RoundTripper) http.RoundTripper
	Recorder events.EventRecorder
	// Metrics may be nil.
	Metrics *metrics.Bridge
	Now     func() time.Time
	// History is after how many commits a branch status begins a new history; 0 for
	// the default.
	History int64

	base   context.Context
	based  chan struct{}
	events chan event.GenericEvent

	mu        sync.Mutex
	followers map[string]*follower
	wait      sync.WaitGroup
}

// Claims is the claim controller of one cluster.
type Claims interface {
	Enqueue(path string, urgent bool)
	OnControlPlane(binding string) map[string]store.Hash
	CountQuota(binding string)
	DryRun(ctx context.Context, p session.Proposed) session.Trial
	Run(ctx context.Context, s *session.Session) error
}

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.based, r.events, r.followers = make(chan struct{}), make(chan event.GenericEvent, 1024), map[string]*follower{}
	if err := mgr.Add(r); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clusterbinding").
		For(&v1alpha1.ClusterBinding{}).
		WatchesRawSource(source.Channel(r.events, &handler.EnqueueRequestForObject{})).
		WithOptions(backoff.Controller(8)).
		Complete(r)
}

// Start lets followers begin, and returns when ctx has ended and all followers
// with it.
func (r *Reconciler) Start(ctx context.Context) error {
	r.base = ctx
	close(r.based)
	<-ctx.Done()
	r.wait.Wait()
	return nil
}

// Reconcile follows one ClusterBinding.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	select {
	case <-r.based:
	case <-ctx.Done():
		return ctrl.Result{}, nil
	}
	var b v1alpha1.ClusterBinding
	switch err := r.Client.Get(ctx, req.NamespacedName, &b); {
	case apierrors.IsNotFound(err):
		r.end(req.Name)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	case b.DeletionTimestamp != nil:
		r.end(req.Name)
		return ctrl.Result{}, nil
	}
	var next ctrl.Result
	if b.Shard() != r.Shard {
		switch still, err := r.stillFollows(ctx, &b); {
		case err != nil:
			return ctrl.Result{}, err
		case !still:
			return ctrl.Result{}, r.handOver(ctx, &b)
		}
		next.RequeueAfter = handOverInterval
	}
	f, err := r.follow(ctx, &b)
	switch {
	case errors.Is(err, errNotHandedOver):
		return ctrl.Result{RequeueAfter: handOverInterval}, nil
	case errors.Is(err, errMoved):
		// It comes again as it is now.
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	case f == nil:
		return next, nil
	}
	err = r.decide(ctx, f, &b)
	f.reencrypt(&b)
	if !f.status.hasKeys() {
		keys, keyErr := r.Keys(ctx)
		f.status.publish(keys)
		err = errors.Join(err, keyErr)
	}
	condition := f.session.Condition()
	r.count(&b, f.session.IsFollowing())
	foreign, known := f.session.Foreign.Paths()
	r.tellForeign(f, &b, foreign)
	if err := errors.Join(err, f.status.say(ctx, &b, condition, foreign, known)); err != nil {
		return ctrl.Result{}, err
	}
	return next, nil
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// tellForeign tells of claims that are held since the last time it was looked.
func (r *Reconciler) tellForeign(f *follower, b *v1alpha1.ClusterBinding, foreign []string) {
	var news []string
	now := map[string]bool{}
	for _, path := range foreign {
		now[path] = true
		if !f.foreign[path] {
			news = append(news, path)
		}
	}
	f.foreign = now
	if len(news) > 0 {
		r.Recorder.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.ConditionForeignObjects, "Hold", "%s", foreignWords(news))
	}
}

// follow gives the follower of a binding. It is nil as long as the backend has
// not made what is to be followed.
func (r *Reconciler) follow(ctx context.Context, b *v1alpha1.ClusterBinding) (*follower, error) {
	r.mu.Lock()
	known := r.followers[b.Name]
	r.mu.Unlock()
	if !isMade(b) {
		// What is followed already works without the backend.
		return known, nil
	}
	if known != nil {
		if known.is(b) && !known.status.isSuperseded() {
			return known, nil
		}
		r.stop(b.Name)
	}
	// What is in mind of it may be older than what was written.
	live, err := r.takeOver(ctx, b)
	if err != nil {
		return nil, err
	}
	if *b = *live; !isMade(b) {
		return nil, nil
	}
	f, err := r.begin(ctx, b)
	if err != nil {
		err = fmt.Errorf("follow %s: %w", b.Status.Repository.URL, err)
		r.count(b, false)
		condition := session.Condition{Status: "False", Reason: "NotFollowed", Message: err.Error()}
		return nil, errors.Join(err, newStatus(r.Client, r.Server, b, r.Shard).say(ctx, b, condition, nil, false))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers[b.Name] = f
	return f, nil
}

// isMade reports whether all was there once. What is wrong with it since, the condition Ready says,
// and it keeps a bridge that begins from its work no more than one that runs.
func isMade(b *v1alpha1.ClusterBinding) bool {
	return b.Status.Repository != nil && b.Status.TenantNamespace != ""
}

// count says whether a binding is followed, where it is to be.
func (r *Reconciler) count(b *v1alpha1.ClusterBinding, follows bool) {
	if b.Spec.Suspended {
		r.Metrics.Unfollows(b.Name)
	} else {
		r.Metrics.Follows(b.Name, follows)
	}
}

func (r *Reconciler) stop(name string) {
	r.mu.Lock()
	f := r.followers[name]
	delete(r.followers, name)
	r.mu.Unlock()
	if f != nil {
		f.stop()
	}
	r.Metrics.Unfollows(name)
}

// end stops what does not begin here again, and nothing is counted of it any more.
func (r *Reconciler) end(name string) {
	r.stop(name)
	r.Metrics.Forget(name)
}

// changed has a binding's condition looked at.
func (r *Reconciler) changed(name string) {
	b := &v1alpha1.ClusterBinding{}
	b.Name = name
	select {
	case r.events <- event.GenericEvent{Object: b}:
	case <-r.base.Done():
	}
}

// binding names a ClusterBinding and its life.
type binding struct {
	name string
	uid  types.UID
}
