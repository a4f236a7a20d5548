package apiservicebinding

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/konnector/internal/agent/repository"
)

const workers = 8

// heldWait gathers what happens to held files into one write.
const heldWait = time.Second

// AddToManager starts the controller with the manager. Connection, binding and
// export may come in any order.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	r.Pool.OnChange(r.connectionChanged)
	r.Pool.OnProgress(r.connectionProgressed)
	r.Pool.OnRequest(func(binding string) { r.requests.add(binding, 0) })
	r.requests.begun = func() {
		for _, repo := range r.Pool.All() {
			r.askedBy(repo)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("apiservicebinding").
		For(&v1alpha1.APIServiceBinding{}).
		// A CRD is named as its binding.
		Watches(&apiextensionsv1.CustomResourceDefinition{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.Connection{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, c client.Object) []ctrl.Request {
			return r.bindingsOf(ctx, c.GetName())
		}), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(namespace(), handler.Funcs{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool {
				r.Claims.NamespaceCame(e.Object.GetName())
				return false
			},
			UpdateFunc: func(e event.UpdateEvent) bool {
				if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
					r.Claims.NamespaceCame(e.ObjectNew.GetName())
				}
				if e.ObjectOld.GetLabels()[v1alpha1.ChangesLabel] != e.ObjectNew.GetLabels()[v1alpha1.ChangesLabel] {
					r.Claims.NamespaceChanged(e.ObjectNew.GetName())
				}
				return false
			},
			DeleteFunc: func(e event.DeleteEvent) bool {
				r.Claims.NamespaceChanged(e.Object.GetName())
				return false
			},
		})).
		WatchesRawSource(source.Func(r.requests.start)).
		WatchesRawSource(source.Func(func(ctx context.Context, q queue) error { return watchPolicies(ctx, mgr, q) })).
		WithOptions(backoff.Controller(workers)).
		Complete(r)
}

func namespace() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return m
}

// connectionChanged looks at the bindings of a Connection again.
func (r *Reconciler) connectionChanged(connection string) {
	ctx := r.requests.context()
	if ctx == nil {
		// All bindings are looked at when the controller starts.
		return
	}
	for _, req := range r.bindingsOf(ctx, connection) {
		r.requests.add(req.Name, 0)
	}
	r.askedBy(r.Pool.Get(connection))
}

// connectionProgressed looks at the bindings of a Connection that are on their way. Of one
// that is ready, a head of main that is accepted like the one before changes nothing; what
// main asks of it is told by itself. To look costs a dozen requests.
func (r *Reconciler) connectionProgressed(connection string) {
	ctx := r.requests.context()
	if ctx == nil {
		return
	}
	for _, b := range r.all(ctx, connection) {
		if b.DeletionTimestamp != nil || !meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionReady) {
			r.requests.add(b.Name, 0)
		}
	}
}

// askedBy looks at all that a repository asks for, whether there is a binding or
// not.
func (r *Reconciler) askedBy(repo *repository.Repository) {
	if repo == nil {
		return
	}
	for _, binding := range repo.Requests() {
		r.requests.add(binding, 0)
	}
}

func (r *Reconciler) bindingsOf(ctx context.Context, connection string) []ctrl.Request {
	var out []ctrl.Request
	for _, b := range r.all(ctx, connection) {
		out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Name: b.Name}})
	}
	return out
}

// all are all bindings of a Connection.
func (r *Reconciler) all(ctx context.Context, connection string) []v1alpha1.APIServiceBinding {
	var all v1alpha1.APIServiceBindingList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil
	}
	return slices.DeleteFunc(all.Items, func(b v1alpha1.APIServiceBinding) bool { return b.Spec.Connection != connection })
}

// HeldChanged looks at a binding again, soon: what happens to its held files
// makes one write.
func (r *Reconciler) HeldChanged(binding string) { r.requests.add(binding, heldWait) }
