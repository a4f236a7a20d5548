package renewal

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// workers are more than one, as a backend may take long to answer.
const workers = 4

// AddToManager starts the controller with the manager. Only the leader runs it.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("renewal").
		For(&v1alpha1.Connection{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.connectionsOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func (r *Reconciler) connectionsOf(ctx context.Context, secret client.Object) []ctrl.Request {
	var all v1alpha1.ConnectionList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil
	}
	var out []ctrl.Request
	for _, c := range all.Items {
		if c.Spec.SecretRef.Namespace == secret.GetNamespace() && c.Spec.SecretRef.Name == secret.GetName() {
			out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Name: c.Name}})
		}
	}
	return out
}
