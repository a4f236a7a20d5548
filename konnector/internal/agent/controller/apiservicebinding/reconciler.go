// Package apiservicebinding keeps each APIServiceBinding in step with its
// request.yaml on main, installs the CRD of the bound API and the policies of its
// offer as its export in Git says, starts and stops the claim controller for it, and
// takes all of that back when the API is unbound. It never touches a CRD or policy that
// it did not install for the same Connection.
package apiservicebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/status"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/konnector/internal/agent/repository"
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=apiservicebindings,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiservicebindings/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create

// What to wait for that does not tell when it is there.
const (
	rightsWait = 2 * time.Second
	// rightsEvery is how often the rights on an API are looked at that is kept in
	// step, and has nothing to do.
	rightsEvery = time.Minute
	servedWait  = 50 * time.Millisecond
	// servedTimeout is how long the API server may take to answer whether it serves
	// an API: of one that it has just begun to serve it was seen to take 45 s.
	servedTimeout = 5 * time.Second
	// sentTimeout is how long a worker waits until the API server has sent an API's objects.
	sentTimeout  = 2 * time.Second
	conflictWait = 100 * time.Millisecond
	// unsentWait is until a push is tried again that the Git host did not take.
	unsentWait = 10 * time.Second
)

// Reconciler keeps all bound APIs.
type Reconciler struct {
	// Client reads from the cache, Live from the API server.
	Client   client.Client
	Live     client.Reader
	Mapper   meta.RESTMapper
	Recorder events.EventRecorder
	Pool     *repository.Pool
	Claims   *claim.Controllers
	// Rewrites bounds the writes of what others write, too.
	Rewrites budget.Budget
	Now      func() time.Time

	requests requests
	compiled compiled
	// others are the field managers who wrote last what Rewrites bounds, by its keys.
	others sync.Map
}

// notReady is why an API cannot be used yet.
type notReady struct {
	reason, message string
	// retry is when to look again, where nothing will tell; 0 for never.
	retry time.Duration
	// stop says that no claim is to be worked on until then.
	stop bool
	// passing says that it is the way to ready, and no news for a binding that
	// was ready when the process before this one ended.
	passing bool
}

// Reconcile brings one bound API to work, or says what is missing.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &v1alpha1.APIServiceBinding{}
	err := r.Client.Get(ctx, req.NamespacedName, b)
	switch {
	case apierrors.IsNotFound(err):
		r.stop(req.Name)
		return ctrl.Result{}, r.create(ctx, req.Name)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get binding: %w", err)
	}
	l, err := r.agree(ctx, b)
	switch {
	case admission.Stale(err), errors.Is(err, errMoved):
		// The cache is behind, or somebody was quicker.
		return ctrl.Result{RequeueAfter: conflictWait}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	result, err := r.follow(ctx, l)
	if admission.Stale(err) || errors.Is(err, errMoved) {
		return ctrl.Result{RequeueAfter: conflictWait}, nil
	}
	return result, err
}

// follow does what is to be done with a binding that says what its request says.
func (r *Reconciler) follow(ctx context.Context, l *look) (ctrl.Result, error) {
	switch {
	case l.released:
		r.stop(l.binding.Name)
		return ctrl.Result{}, nil
	case l.facts.Terminating && l.facts.Finalizer:
		return r.unbind(ctx, l)
	case l.facts.Terminating:
		r.stop(l.binding.Name)
		return ctrl.Result{}, nil
	}
	api, missing, err := r.bind(ctx, l)
	if err != nil {
		return ctrl.Result{}, err
	}
	return r.report(ctx, l, api, missing)
}

// stop leaves CRD and objects as they are. What a person said about the claims
// of one binding does not count for the next.
func (r *Reconciler) stop(binding string) {
	r.requests.follow(binding, nil)
	for _, repo := range r.Pool.All() {
		repo.Removals.ApproveUnbinding(binding, false)
	}
	r.Claims.Stop(binding)
}

// bind goes step by step; each needs the one before.
func (r *Reconciler) bind(ctx context.Context, l *look) (api claim.API, missing *notReady, err error) {
	b := l.binding
	if err := checkName(b.Name); err != nil {
		return api, &notReady{reason: "NameInvalid", message: fmt.Sprintf("This binding can never work: %s. Delete it.", err), stop: true}, nil
	}
	if l.missing != nil {
		return api, l.missing, nil
	}
	want, notGranted, err := r.wanted(ctx, l)
	if want == nil || err != nil {
		return api, notGranted, err
	}
	crd, missing, err := r.install(ctx, l, want)
	if l.policies == nil {
		l.schema = nil // The export was not read: a newer one may be held.
	}
	if crd == nil || err != nil {
		return api, missing, err
	}
	api, err = claim.NewAPI(crd, l.repo)
	if err != nil {
		return api, &notReady{reason: "ExportInvalid", message: "The API's schema cannot be used: " + err.Error()}, nil
	}
	if err := r.installPolicies(ctx, l); err != nil && l.retry == 0 {
		l.retry = refusedWait
		if admission.Stale(err) {
			l.retry = conflictWait
		}
	}
	api = api.WithKeys(l.terms.MetadataKeys).WithInputs(l.terms.Inputs)
	api.Held, api.Writer, api.OnRejection = b.Status.Held, b.Spec.Writer, b.Spec.OnRejection
	api.Review = l.terms.Changes.Reviewed() || b.Spec.Changes.Reviewed()
	notStarted, err := r.start(ctx, api)
	return api, cmp.Or(notStarted, missing, notGranted), err
}

// start runs the claim controller, if this process may do what it does.
func (r *Reconciler) start(ctx context.Context, api claim.API) (*notReady, error) {
	// Also of one that runs: nothing tells that a right was taken away.
	refused, err := r.forbidden(ctx, api)
	if err != nil {
		return nil, err
	}
	if refused != "" {
		return &notReady{reason: "Forbidden", retry: rightsWait, stop: true, message: fmt.Sprintf(
			"The konnector may not %s %s in this cluster. Bind the API again (kubectl gitbind bind) to grant it.", refused, api.Binding)}, nil
	}
	if !r.Claims.Running(api) {
		if not, err := r.served(ctx, api); not != nil || err != nil {
			return not, err
		}
	}
	if err := r.Claims.Ensure(ctx, api); err != nil {
		return &notReady{reason: "Starting", message: "The objects of this API could not be read. It is tried again.", retry: rightsWait}, nil
	}
	return nil, nil
}

// served returns why the API server does not answer for an API, which it does a
// moment after it says so; nil where it does. An informer that starts before takes
// a second to try again.
func (r *Reconciler) served(ctx context.Context, api claim.API) (*notReady, error) {
	notYet := &notReady{reason: "CRDNotEstablished", message: "The CustomResourceDefinition is installed, and not served yet.", retry: servedWait, passing: true}
	if _, err := r.Mapper.RESTMapping(api.Kind.GroupKind(), api.Kind.Version); meta.IsNoMatchError(err) {
		return notYet, nil
	} else if err != nil {
		return nil, fmt.Errorf("discover %s: %w", api.Binding, err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(api.Kind)
	asked, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	switch err := r.Live.List(asked, list, client.Limit(1)); {
	case apierrors.IsNotFound(err):
		return notYet, nil
	case err != nil && asked.Err() != nil && ctx.Err() == nil:
		return &notReady{reason: "CRDNotEstablished", message: "The CustomResourceDefinition is installed, and this cluster's API server does not answer for its objects yet. It is asked again.", retry: rightsWait}, nil
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", api.Binding, err)
	}
	return nil, nil
}

// report says whether the API can be used, if that says anything new.
func (r *Reconciler) report(ctx context.Context, l *look, api claim.API, missing *notReady) (ctrl.Result, error) {
	b := l.binding
	if missing != nil && missing.stop {
		r.Claims.Stop(b.Name)
	}
	want := b.DeepCopy()
	want.Status.MetadataKeys, want.Status.Changes, want.Status.Offer = l.terms.MetadataKeys, l.terms.Changes, l.terms.Offer
	want.Status.Inputs = l.terms.Inputs
	isRunning := api.Kind.Kind != "" && r.Claims.Running(api)
	if isRunning {
		// Only what was kept in step has a kind: see list.
		want.Status.Kind = api.Kind.Kind
	}
	if missing == nil || isRunning {
		want.Status.HeldFiles, want.Status.Held = r.Claims.Held(b.Name)
		namespaces, notSent, err := r.namespaces(ctx, b.Name)
		if err != nil {
			return ctrl.Result{}, err
		}
		if notSent == nil {
			want.Status.Namespaces = namespaces
		}
		missing = cmp.Or(missing, notSent)
	}
	result := ctrl.Result{RequeueAfter: l.retry}
	switch {
	case missing != nil && missing.retry > 0:
		result.RequeueAfter = missing.retry
	case missing == nil && l.retry == 0:
		result.RequeueAfter = rightsEvery
	}
	set := func(c metav1.Condition) { status.Set(want, c, time.Now()) }
	if c := l.granted(); c != nil {
		set(*c)
	}
	if l.schema != nil {
		set(*l.schema)
	}
	switch {
	case l.judged == nil:
	case l.judged.Reason == "":
		meta.RemoveStatusCondition(&want.Status.Conditions, v1alpha1.ConditionPolicies)
	default:
		set(*l.judged)
	}
	switch {
	case missing == nil:
		set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Bound", Message: "The API can be used."})
	case missing.passing && meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionReady):
		return result, nil
	default:
		set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: missing.reason, Message: missing.message})
	}
	if err := status.Replace(ctx, r.Client, b, want); err != nil {
		return ctrl.Result{}, fmt.Errorf("update status: %w", err)
	}
	return result, nil
}

// namespaces are those that have objects of an API that is kept in step, or why they are not known
// yet.
func (r *Reconciler) namespaces(ctx context.Context, binding string) ([]string, *notReady, error) {
	waited, cancel := context.WithTimeout(ctx, sentTimeout)
	defer cancel()
	all, err := r.Claims.Namespaces(waited, binding)
	if err != nil && waited.Err() != nil && ctx.Err() == nil {
		return nil, &notReady{reason: "Starting", message: "This cluster's API server has not sent the objects of this API yet. They are waited for.", retry: rightsWait, passing: true}, nil
	}
	return all, nil, err
}
