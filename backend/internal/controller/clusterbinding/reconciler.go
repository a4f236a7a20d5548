// Package clusterbinding makes what each app cluster needs on the control plane
// (tenant namespace, ServiceAccount, the bridge's right to act as it and its
// credential, repository) and says in the condition Ready that it is there.
//
// It refuses to take over a namespace that is not the cluster's own, and to
// replace a repository that was there and is gone. Deleting a ClusterBinding
// removes everything but the repository, through the owner reference of the
// tenant namespace: what was ordered, by whom and when stays with the Git host
// until an operator removes it there.
package clusterbinding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/ratelimit"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/status"
)

// Reconciler reconciles ClusterBindings.
type Reconciler struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	Host githost.Host
	// Accounts is Host, if it does not ask the backend whom to let in; nil otherwise.
	Accounts githost.Accounts
	// Move brings a repository to Accounts from the host that had it before. It is false where
	// the backend has nothing of it.
	Move func(ctx context.Context, cluster string) (bool, error)
	Now  func() time.Time

	// issues bounds what Accounts is asked for, and looks how often it is looked at, of each cluster.
	issues githost.IssueLimit
	looks  ratelimit.Keyed
	mu     sync.Mutex
	// counting are the credentials that counted when those that do not were ended last, by
	// cluster and agent.
	counting map[[2]string][]string
}

const (
	// hostLookEvery is how often Accounts is looked at for one cluster, and hostLookBurst how many times at
	// once: that takes up to 20 requests, and a konnector that registers keys, or has its
	// credential renewed, has its cluster looked at.
	hostLookEvery = 15 * time.Second
	hostLookBurst = 15
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings/status,verbs=get;patch
// +kubebuilder:rbac:groups="",resources=namespaces;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=gitbind-bridge,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=gitbind-konnector,verbs=list;watch
//
// To let the bridge act as a tenant, which the backend itself may not:
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=gitbind-bridge-impersonate,verbs=bind

// step is one thing that a cluster needs.
type step struct {
	name string
	do   func(context.Context, *v1alpha1.ClusterBinding) error
}

func (r *Reconciler) steps() []step {
	return []step{
		{"tenant namespace", r.namespace},
		{"ServiceAccount", r.apply(func(cb *v1alpha1.ClusterBinding) runtime.ApplyConfiguration { return serviceAccount(cb) })},
		{"bridge's role binding", r.apply(func(cb *v1alpha1.ClusterBinding) runtime.ApplyConfiguration { return impersonationBinding(cb) })},
	}
}

// Reconcile makes what is missing, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cb v1alpha1.ClusterBinding
	if err := r.Client.Get(ctx, req.NamespacedName, &cb); err != nil {
		if apierrors.IsNotFound(err) {
			// What opens the backend went with the namespace.
			cb.Name = req.Name
			ended := r.endCredentials(ctx, &cb, true)
			result, err := r.later(ended)
			if ended != nil && err == nil {
				// There is nothing left on which to report it.
				log.FromContext(ctx).Info("Credentials of a cluster that is gone have not ended", "error", ended.Error())
			}
			return result, err
		}
		return ctrl.Result{}, err
	}
	if cb.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // the garbage collector removes what it owns
	}
	var later time.Duration
	if r.Accounts != nil {
		_, later = r.looks.Take(cb.Name, hostLookEvery, hostLookBurst, r.Now())
	}
	// What was revoked ends, whatever else is wrong.
	ended := named("credentials that ended", r.endCredentials(ctx, &cb, later == 0))
	if later > 0 {
		return ctrl.Result{RequeueAfter: later}, nil // then, what is wrong is said, too
	}
	made := r.make(ctx, &cb, ended)
	err, said := errors.Join(made, ended), made
	if said == nil {
		said = ended
	}
	if reportErr := r.report(ctx, &cb, said); reportErr != nil {
		return ctrl.Result{}, errors.Join(err, reportErr)
	}
	again, lookErr := r.lookAgain(ctx, &cb)
	if err == nil {
		return ctrl.Result{RequeueAfter: again}, lookErr
	}
	result, err := r.later(err)
	if lookErr == nil {
		// The bridge's credential does not wait for what the host is asked for otherwise. One that
		// is overdue was just tried.
		result.RequeueAfter = min(result.RequeueAfter, max(again, time.Minute))
	}
	return result, err
}

// later says when to try again what failed.
func (r *Reconciler) later(err error) (ctrl.Result, error) {
	var limit *githost.RateLimitError
	var often *githost.TooOftenError
	// Not all clusters at once.
	at := func(t time.Time) time.Duration { return wait.Jitter(max(t.Sub(r.Now()), time.Second), 0.2) }
	switch {
	case errors.As(err, &limit):
		return ctrl.Result{RequeueAfter: at(limit.Until)}, nil
	case errors.As(err, &often):
		return ctrl.Result{RequeueAfter: at(often.Until)}, nil
	case errors.Is(err, githost.ErrRenamed), errors.Is(err, githost.ErrArchived), errors.Is(err, githost.ErrMarkedForDeletion), errors.Is(err, githost.ErrOtherHistory), errors.Is(err, githost.ErrWebhook), errors.As(err, new(*githost.AccountTakenError)):
		// Said, and not watched. To ask a host elsewhere costs of its rate limit.
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	case errors.Is(err, errTaken), errors.Is(err, errRepositoryGone):
		// Said; it takes somebody else to change it, and not all of that is watched.
		return ctrl.Result{RequeueAfter: 15 * time.Second}, nil
	}
	return ctrl.Result{}, err
}

// make makes all that a cluster has. Ended is why credentials that count no longer have not ended.
func (r *Reconciler) make(ctx context.Context, cb *v1alpha1.ClusterBinding, ended error) error {
	if !v1alpha1.ValidClusterID(cb.Name) {
		return fmt.Errorf("%w: %q cannot be a cluster's id: connect the cluster with kubectl gitbind connect instead", errTaken, cb.Name)
	}
	for _, s := range r.steps() {
		if err := s.do(ctx, cb); err != nil {
			return named(s.name, err)
		}
	}
	err := named("repository", r.repository(ctx, cb))
	if err != nil && cb.Status.Repository == nil || errors.Join(err, ended) != nil && r.moves(cb) {
		return err // the bridge goes on where the repository was
	}
	// What is wrong with one that exists, such as its webhook, leaves the bridge its credential.
	return errors.Join(err, named("bridge's credential", r.bridgeCredential(ctx, cb)))
}

// named says which step an error is of.
func named(step string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", step, err)
	}
	return err
}

// apply is the step that applies one object.
func (r *Reconciler) apply(desired func(*v1alpha1.ClusterBinding) runtime.ApplyConfiguration) func(context.Context, *v1alpha1.ClusterBinding) error {
	return func(ctx context.Context, cb *v1alpha1.ClusterBinding) error {
		return r.Client.Apply(ctx, desired(cb), fieldOwner, client.ForceOwnership)
	}
}

// errRepositoryGone says that a repository that was there is not there now.
var errRepositoryGone = errors.New("the repository is gone from the Git host: restore it from a backup; to begin with an empty one instead, remove status.repository (agents then hold until a person accepts it)")

func (r *Reconciler) repository(ctx context.Context, cb *v1alpha1.ClusterBinding) error {
	exists, err := r.Host.Exists(ctx, cb.Name)
	if err != nil {
		return err
	}
	if r.Accounts != nil && r.moves(cb) {
		moved, err := r.Move(ctx, cb.Name)
		if err != nil {
			return err
		}
		exists = exists || moved
	}
	if !exists && cb.Status.Repository != nil {
		// A host elsewhere does not show what the backend has no right to see.
		if r.Accounts != nil {
			if err := r.Accounts.Ready(ctx); err != nil {
				return err
			}
		}
		return errRepositoryGone
	}
	if err := r.Host.Create(ctx, cb.Name); err != nil {
		return err
	}
	// Also when the cluster was handed over.
	if host, ok := r.Host.(githost.Owned); ok {
		return host.SetOwner(ctx, cb.Name, githost.OwnerDigest(cb.Spec.Owner.Issuer, cb.Spec.Owner.Subject))
	}
	return nil
}

// moves tells whether a repository was on another Git host before.
func (r *Reconciler) moves(cb *v1alpha1.ClusterBinding) bool {
	was := cb.Status.Repository
	return was != nil && was.URL != r.Host.URL(cb.Name)
}

// fieldOwner is the backend's, in all that it applies.
const fieldOwner = client.FieldOwner("gitbind-backend")

var part = status.Part{
	Owner: fieldOwner, Fields: []string{"tenantNamespace", "repository"}, Conditions: []string{v1alpha1.ConditionReady},
}

// report writes the condition Ready and what exists.
func (r *Reconciler) report(ctx context.Context, cb *v1alpha1.ClusterBinding, err error) error {
	want := cb.DeepCopy()
	// What was said once stays said: a repository that was there must not be
	// made again after some other step failed.
	if err == nil {
		want.Status.TenantNamespace, want.Status.Repository = v1alpha1.TenantNamespace(cb.Name), &v1alpha1.Repository{URL: r.Host.URL(cb.Name)}
	}
	c := readiness(err)
	if waits := c.Reason == reasonRateLimit || c.Reason == reasonWaits; waits && meta.IsStatusConditionTrue(cb.Status.Conditions, v1alpha1.ConditionReady) {
		return nil // nothing is known that is not so any more
	}
	status.Set(want, c, r.Now())
	// It may have been deleted meanwhile.
	return client.IgnoreNotFound(part.Write(ctx, r.Client, cb, want))
}

// The reasons of what waits, and is not wrong.
const (
	reasonRateLimit = "GitHostRateLimit"
	reasonWaits     = "CredentialWaits"
)

// readiness maps the outcome to the condition Ready.
func readiness(err error) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	var taken *githost.AccountTakenError
	var refused *githost.MoveRefusedError
	switch {
	case err == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Ready", "namespace, rights, repository and credentials exist"
	case errors.Is(err, errTaken):
		c.Reason, c.Message = "InTheWay", err.Error()
	case errors.Is(err, errRepositoryGone):
		c.Reason, c.Message = "RepositoryGone", errRepositoryGone.Error()
	case errors.Is(err, githost.ErrRenamed):
		c.Reason, c.Message = "RepositoryRenamed", githost.ErrRenamed.Error()
	case errors.Is(err, githost.ErrArchived):
		c.Reason, c.Message = "RepositoryArchived", githost.ErrArchived.Error()
	case errors.Is(err, githost.ErrMarkedForDeletion):
		c.Reason, c.Message = "RepositoryMarkedForDeletion", githost.ErrMarkedForDeletion.Error()
	case errors.Is(err, githost.ErrOtherHistory):
		c.Reason, c.Message = "AnotherRepository", githost.ErrOtherHistory.Error()
	case errors.As(err, &refused):
		c.Reason, c.Message = "GitHostRefusesBranches", refused.Error()
	case errors.Is(err, githost.ErrWebhook):
		c.Reason, c.Message = "GitHostRefusesWebhook", githost.ErrWebhook.Error()
	case errors.As(err, &taken):
		c.Reason, c.Message = "InTheWay", taken.Error()
	case errors.Is(err, githost.ErrCredential):
		c.Reason, c.Message = "GitHostRefuses", githost.ErrCredential.Error()
	case errors.As(err, new(*githost.RateLimitError)):
		c.Reason, c.Message = reasonRateLimit, "the Git host answers no more requests of the backend for a while; it is asked again when that ends"
	case errors.As(err, new(*githost.TooOftenError)):
		c.Reason, c.Message = reasonWaits, "the bridge asked for several credentials within minutes; it gets the next one in a while"
	case apierrors.IsForbidden(err):
		c.Reason, c.Message = "Forbidden", "the backend lacks a right: apply its ClusterRole gitbind-backend again; its log says which"
	default:
		c.Reason, c.Message = "Failed", "not all of it could be made; it is tried again, and the backend's log says why"
	}
	return c
}
