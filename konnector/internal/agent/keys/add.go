package keys

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
	r.asked = make(chan string, 64)
	events := make(chan event.GenericEvent)
	err := mgr.Add(leader(func(ctx context.Context) error {
		for {
			select {
			case name := <-r.asked:
				c := &v1alpha1.Connection{}
				c.Name = name
				select {
				case events <- event.GenericEvent{Object: c}:
				case <-ctx.Done():
					return nil
				}
			case <-ctx.Done():
				return nil
			}
		}
	}))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("keys").
		For(&v1alpha1.Connection{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(connection.WithSecret(r.Client))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(connection.WithKeys)).
		WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).
		WithOptions(backoff.Controller(workers)).
		Complete(r)
}

// leader runs where the controllers do.
type leader func(context.Context) error

func (l leader) Start(ctx context.Context) error { return l(ctx) }
func (leader) NeedLeaderElection() bool          { return true }
