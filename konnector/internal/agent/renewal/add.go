package renewal

import (
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/konnector/internal/agent/controller/connection"
)

// workers are more than one, as a backend may take long to answer.
const workers = 4

// AddToManager starts the controller with the manager. Only the leader runs it.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("renewal").
		For(&v1alpha1.Connection{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(connection.WithSecret(r.Client))).
		WithOptions(backoff.Controller(workers)).
		Complete(r)
}
