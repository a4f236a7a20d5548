package clusterbinding

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// AddToManager sets the controller up. bridgeSecrets and konnectorSecrets are caches of
// the Secrets named v1alpha1.BridgeSecret and v1alpha1.KonnectorSecret.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, bridgeSecrets, konnectorSecrets cache.Cache, o controller.Options) error {
	mapped := handler.EnqueueRequestsFromMapFunc(ofTenant)
	secrets := func(of cache.Cache) source.Source {
		return source.Kind(of, &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, s *corev1.Secret) []reconcile.Request { return ofTenant(ctx, s) }))
	}
	b := builder.ControllerManagedBy(mgr).
		Named("clusterbinding").
		// The bridge writes to the status with each commit it accepts; that is
		// nothing to do anything about. A repository that was given up is.
		For(&v1alpha1.ClusterBinding{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, repositoryGivenUp()))).
		Watches(&corev1.Namespace{}, mapped).
		Watches(&corev1.ServiceAccount{}, mapped).
		Watches(&rbacv1.RoleBinding{}, mapped).
		WatchesRawSource(secrets(bridgeSecrets)).
		WithOptions(o)
	if r.Accounts != nil {
		b = b.WatchesRawSource(secrets(konnectorSecrets))
	}
	return b.Complete(r)
}

// ofTenant gives the ClusterBinding to which an object belongs that lies in, or
// is, a tenant namespace. Claim namespaces have the label too, and are the
// bridge's.
func ofTenant(_ context.Context, o client.Object) []reconcile.Request {
	id := o.GetLabels()[v1alpha1.LabelCluster]
	in := o.GetNamespace()
	if in == "" {
		in = o.GetName()
	}
	if id == "" || in != v1alpha1.TenantNamespace(id) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: id}}}
}

// repositoryGivenUp lets through that somebody removed status.repository.
func repositoryGivenUp() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		cb, ok := o.(*v1alpha1.ClusterBinding)
		return ok && cb.Status.Repository == nil
	})
}
