package connection

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
)

const workers = 4

// AddToManager starts the controller with the manager. Secret and Connection
// may come in any order.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("connection").
		For(&v1alpha1.Connection{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(WithSecret(r.Client))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(WithKeys)).
		Watches(&v1alpha1.APIServiceBinding{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.Funcs{
			// What belongs to a Connection does not change while it is there.
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			look := func(connection string) {
				q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: connection}})
			}
			r.Pool.OnChange(look)
			r.Pool.OnProgress(look)
			return nil
		})).
		WithOptions(backoff.Controller(workers)).
		Complete(r)
}

// all are all Connections.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrl.Request {
	var all v1alpha1.ConnectionList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil
	}
	out := make([]ctrl.Request, 0, len(all.Items))
	for _, c := range all.Items {
		out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Name: c.Name}})
	}
	return out
}

// WithKeys maps a Secret to the Connection whose keys it has.
func WithKeys(_ context.Context, secret client.Object) []ctrl.Request {
	connection, ok := strings.CutPrefix(secret.GetName(), v1alpha1.EncryptionSecret(""))
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: connection}}}
}

// WithSecret maps a Secret to the Connections that name it.
func WithSecret(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, secret client.Object) []ctrl.Request {
		var all v1alpha1.ConnectionList
		if err := reader.List(ctx, &all); err != nil {
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
}
