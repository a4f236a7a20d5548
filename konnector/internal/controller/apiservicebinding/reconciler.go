// Package apiservicebinding installs the CRD of each bound API, as its export in
// Git says, and starts and stops the claim controller for it. It never touches a
// CRD that it did not install for the same Connection, and removes none.
package apiservicebinding

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	contract "gitbind.dev/gitbridge/claim"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/controller/claim"
	"gitbind.dev/konnector/internal/repository"
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=apiservicebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiservicebindings/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create;update

// What to wait for that does not tell when it is there.
const (
	rightsWait   = 2 * time.Second
	servedWait   = 50 * time.Millisecond
	conflictWait = 100 * time.Millisecond
)

// Reconciler keeps all bound APIs.
type Reconciler struct {
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Mapper meta.RESTMapper
	Pool   *repository.Pool
	Claims *claim.Controllers

	requests requests
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
	if err := r.Client.Get(ctx, req.NamespacedName, b); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("get binding: %w", err)
		}
		r.unbind(ctx, req.Name)
		return ctrl.Result{}, nil
	}
	if !b.DeletionTimestamp.IsZero() {
		r.unbind(ctx, req.Name)
		return ctrl.Result{}, nil
	}
	api, missing, err := r.bind(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if missing != nil && missing.stop {
		r.Claims.Stop(ctx, b.Name)
	}
	if err := r.report(ctx, b, api, missing); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: conflictWait}, nil
		}
		return ctrl.Result{}, fmt.Errorf("update status: %w", err)
	}
	if missing != nil {
		return ctrl.Result{RequeueAfter: missing.retry}, nil
	}
	return ctrl.Result{}, nil
}

// unbind leaves CRD and objects as they are.
func (r *Reconciler) unbind(ctx context.Context, binding string) {
	r.requests.follow(binding, nil)
	r.Claims.Stop(ctx, binding)
}

// bind goes step by step; each needs the one before.
func (r *Reconciler) bind(ctx context.Context, b *v1alpha1.APIServiceBinding) (api claim.API, missing *notReady, err error) {
	if err := checkName(b.Name); err != nil {
		return api, &notReady{reason: "NameInvalid", message: fmt.Sprintf("This binding can never work: %s. Delete it.", err), stop: true}, nil
	}
	repo, missing, err := r.repository(ctx, b)
	if missing != nil || err != nil {
		return api, missing, err
	}
	want, missing, err := r.wanted(ctx, b, repo)
	if missing != nil || err != nil {
		return api, missing, err
	}
	crd, missing, err := r.install(ctx, want)
	if missing != nil || err != nil {
		return api, missing, err
	}
	api, err = claim.NewAPI(crd, repo)
	if err != nil {
		return api, &notReady{reason: "ExportInvalid", message: "The API's schema cannot be used: " + err.Error()}, nil
	}
	api.Held, api.Writer = b.Status.Held, b.Spec.Writer
	missing, err = r.start(ctx, api)
	return api, missing, err
}

// repository finds the open repository of the binding's Connection.
func (r *Reconciler) repository(ctx context.Context, b *v1alpha1.APIServiceBinding) (*repository.Repository, *notReady, error) {
	repo := r.Pool.Get(b.Spec.Connection)
	r.requests.follow(b.Name, repo)
	conn := &v1alpha1.Connection{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: b.Spec.Connection}, conn); {
	case apierrors.IsNotFound(err):
		return nil, &notReady{reason: "ConnectionNotFound", stop: true,
			message: fmt.Sprintf("Connection %s does not exist. Create it, or connect this cluster (kubectl gitbind connect).", b.Spec.Connection)}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("get connection %s: %w", b.Spec.Connection, err)
	}
	notYet := &notReady{reason: "ConnectionNotReady", stop: true, passing: meta.IsStatusConditionTrue(conn.Status.Conditions, v1alpha1.ConditionReady),
		message: fmt.Sprintf("The repository of Connection %s was not reached yet: see kubectl get connection %s.", conn.Name, conn.Name)}
	if repo == nil {
		return nil, notYet, nil
	}
	if _, err := repo.View(ctx); errors.Is(err, repository.ErrNotContacted) {
		return nil, notYet, nil
	}
	return repo, nil, nil
}

// wanted is the definition that the export in Git says.
func (r *Reconciler) wanted(ctx context.Context, b *v1alpha1.APIServiceBinding, repo *repository.Repository) (*apiextensionsv1.CustomResourceDefinition, *notReady, error) {
	view, err := repo.View(ctx)
	if err != nil {
		return nil, nil, err
	}
	path := contract.ExportPath(b.Name)
	data, err := view.Status.Read(path)
	if view.StatusReplaced != "" {
		// What it grants may be yesterday's, or another cluster's.
		return r.installed(ctx, b, view.StatusReplaced)
	}
	if errors.Is(err, store.ErrNotExist) {
		return nil, &notReady{reason: "WaitingForExport", message: fmt.Sprintf("The control plane has not published %s on branch status: the API is not granted to this cluster yet (kubectl gitbind bind), or the control plane is not running.", path)}, nil
	}
	if err != nil {
		return nil, &notReady{reason: "ExportInvalid", message: fmt.Sprintf("%s on branch status cannot be used: %s.", path, err)}, nil
	}
	crd, err := definition(b.Name, b.Spec.Connection, data)
	if err != nil {
		return nil, &notReady{reason: "ExportInvalid", message: fmt.Sprintf("%s on branch status cannot be used: %s.", path, err)}, nil
	}
	return crd, nil, nil
}

// installed is the definition as it is, where Git cannot be asked.
func (r *Reconciler) installed(ctx context.Context, b *v1alpha1.APIServiceBinding, why string) (*apiextensionsv1.CustomResourceDefinition, *notReady, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: b.Name}, crd)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("get CustomResourceDefinition %s: %w", b.Name, err)
	}
	if err != nil || crd.Annotations[v1alpha1.ConnectionAnnotation] != b.Spec.Connection {
		return nil, &notReady{reason: "StatusReplaced", message: why}, nil
	}
	return crd, nil, nil
}

// install creates or updates the definition, and waits until it is served.
func (r *Reconciler) install(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, *notReady, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err):
		live = want.DeepCopy()
		err = r.Client.Create(ctx, live)
	case err != nil:
		return nil, nil, fmt.Errorf("get CustomResourceDefinition %s: %w", want.Name, err)
	case live.DeletionTimestamp != nil:
		return nil, &notReady{reason: "CRDTerminating", message: fmt.Sprintf("CustomResourceDefinition %s is being deleted. It is installed again when it is gone.", want.Name)}, nil
	case live.Annotations[v1alpha1.ConnectionAnnotation] != want.Annotations[v1alpha1.ConnectionAnnotation]:
		return nil, conflict(want, live), nil
	case !sameSpec(want.Spec, live.Spec) || live.Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByKonnector:
		live.Spec = want.Spec
		metav1.SetMetaDataLabel(&live.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.ManagedByKonnector)
		err = r.Client.Update(ctx, live)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return nil, &notReady{reason: "CRDNotEstablished", message: "The CustomResourceDefinition is being installed.", retry: conflictWait}, nil
	case apierrors.IsInvalid(err):
		return nil, &notReady{reason: "CRDRefused", message: "This cluster's API server refuses the definition of the API: " + err.Error()}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("install CustomResourceDefinition %s: %w", want.Name, err)
	}
	if !established(live) {
		return nil, &notReady{reason: "CRDNotEstablished", message: "The CustomResourceDefinition is installed, and not served yet."}, nil
	}
	return live, nil, nil
}

func conflict(want, live *apiextensionsv1.CustomResourceDefinition) *notReady {
	whose := "somebody else's"
	if other := live.Annotations[v1alpha1.ConnectionAnnotation]; other != "" {
		whose = "that of Connection " + other
	}
	return &notReady{reason: "CRDConflict", stop: true, message: fmt.Sprintf(
		"CustomResourceDefinition %s exists and is %s: it is left as it is. To let this binding have it, annotate it: kubectl annotate crd %s %s=%s --overwrite.",
		want.Name, whose, want.Name, v1alpha1.ConnectionAnnotation, want.Annotations[v1alpha1.ConnectionAnnotation])}
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// start runs the claim controller, if this process may do what it does.
func (r *Reconciler) start(ctx context.Context, api claim.API) (*notReady, error) {
	if !r.Claims.Running(api) {
		refused, err := r.forbidden(ctx, api)
		if err != nil {
			return nil, err
		}
		if refused != "" {
			return &notReady{reason: "Forbidden", retry: rightsWait, stop: true, message: fmt.Sprintf(
				"The konnector may not %s %s in this cluster. Bind the API again (kubectl gitbind bind) to grant it.", refused, api.Binding)}, nil
		}
		served, err := r.served(ctx, api)
		if err != nil {
			return nil, err
		}
		if !served {
			return &notReady{reason: "CRDNotEstablished", message: "The CustomResourceDefinition is installed, and not served yet.", retry: servedWait, passing: true}, nil
		}
	}
	if err := r.Claims.Ensure(ctx, api); err != nil {
		return &notReady{reason: "Starting", message: "The objects of this API could not be read. It is tried again.", retry: rightsWait}, nil
	}
	return nil, nil
}

// served reports whether the API server answers for an API, which it does a
// moment after it says so. An informer that starts before takes a second to try
// again.
func (r *Reconciler) served(ctx context.Context, api claim.API) (bool, error) {
	if _, err := r.Mapper.RESTMapping(api.Kind.GroupKind(), api.Kind.Version); meta.IsNoMatchError(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("discover %s: %w", api.Binding, err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(api.Kind)
	switch err := r.Live.List(ctx, list, client.Limit(1)); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("list %s: %w", api.Binding, err)
	}
	return true, nil
}

// report writes the status, if it says anything new.
func (r *Reconciler) report(ctx context.Context, b *v1alpha1.APIServiceBinding, api claim.API, missing *notReady) error {
	want := b.DeepCopy()
	if api.Kind.Kind != "" {
		want.Status.Kind = api.Kind.Kind
	}
	if missing == nil {
		want.Status.HeldFiles, want.Status.Held = r.Claims.Held(b.Name)
		var err error
		if want.Status.Namespaces, err = r.Claims.Namespaces(ctx, api); err != nil {
			return err
		}
	}
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Bound",
		Message: "The API can be used.", ObservedGeneration: b.Generation,
	}
	if missing != nil {
		if missing.passing && meta.IsStatusConditionTrue(b.Status.Conditions, c.Type) {
			return nil
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, missing.reason, missing.message
	}
	meta.SetStatusCondition(&want.Status.Conditions, c)
	if equality.Semantic.DeepEqual(want.Status, b.Status) {
		return nil
	}
	return r.Client.Status().Update(ctx, want)
}
