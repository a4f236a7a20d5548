package apiserviceexport

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// AddToManager sets the controller up.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, o controller.Options) error {
	return builder.ControllerManagedBy(mgr).
		Named("apiserviceexport").
		For(&v1alpha1.ClusterBinding{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// The bridge writes to the status of exports; the grant is in the spec.
		Watches(&v1alpha1.APIServiceExport{}, handler.EnqueueRequestsFromMapFunc(ofExport), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.ofRole)).
		WithOptions(o).
		Complete(r)
}

// ofExport gives the cluster in whose tenant namespace an export lies.
func ofExport(_ context.Context, o client.Object) []reconcile.Request {
	id, ok := strings.CutPrefix(o.GetNamespace(), v1alpha1.TenantNamespace(""))
	if !ok || !v1alpha1.ValidClusterID(id) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: id}}}
}

// ofRole gives the cluster of a tenant's role, or all clusters when operators
// offer other APIs than before.
func (r *Reconciler) ofRole(ctx context.Context, o client.Object) []reconcile.Request {
	if id, ok := strings.CutPrefix(o.GetName(), v1alpha1.TenantRole("")); ok && v1alpha1.ValidClusterID(id) {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: id}}}
	}
	if o.GetName() != v1alpha1.OfferedAPIs {
		return nil
	}
	var list v1alpha1.ClusterBindingList
	if err := r.Client.List(ctx, &list); err != nil {
		log.FromContext(ctx).Error(err, "List ClusterBindings after a change of the offered APIs")
		return nil
	}
	var requests []reconcile.Request
	for _, cb := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: cb.Name}})
	}
	return requests
}
