package keys

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/konnector/internal/agent/controller/connection"
)

// workers are more than one, as a backend may take long to answer.
const workers = 4

// AddToManager starts the controller with the manager. Only the leader runs it.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("keys").
		For(&v1alpha1.Connection{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(connection.WithSecret(r.Client))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(connection.WithKeys)).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = q
			return nil
		})).
		WithOptions(backoff.Controller(workers)).
		Complete(r)
}
