package heartbeat

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/konnector/internal/agent/controller/connection"
)

// workers are more than one, as a backend may take long to answer.
const workers = 4

// AddToManager starts the controller with the manager. Only the leader runs it.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	if err := mgr.Add(farewell{r}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("heartbeat").
		For(&v1alpha1.Connection{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(connection.WithSecret(r.Client))).
		WithOptions(backoff.Controller(workers)).
		Complete(r)
}

// farewell tells all backends that this process ends, so that the next one need not wait.
// The manager lets go of the Lease after that.
type farewell struct{ *Reconciler }

// NeedLeaderElection says that it runs where the controllers do.
func (farewell) NeedLeaderElection() bool { return true }

func (f farewell) Start(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	var all sync.WaitGroup
	for _, m := range f.about {
		if to := m.to; to.backend != nil {
			// Without it the next process waits until this one must have ended.
			all.Go(func() {
				_, _ = f.send(context.WithoutCancel(ctx), to, restapi.Heartbeat{Ending: true}, farewellTimeout)
			})
		}
	}
	all.Wait()
	return nil
}
