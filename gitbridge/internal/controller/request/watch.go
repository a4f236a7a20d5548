package request

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitbind.dev/backend/api/v1alpha1"
	"gitbind.dev/gitbridge/claim"
	"gitbind.dev/gitbridge/internal/session"
)

// Watch has requests looked at when offers change, or who may bind them. Its own
// requests name what changed: as namespace a cluster's id and as name a binding,
// "" for all of them.
type Watch struct {
	Sessions *session.Registry
}

// SetupWithManager adds the watch to a manager. Of roles and bindings it keeps the
// metadata only: what they say is for the API server to judge.
func (w *Watch) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("request-watch").
		Watches(&v1alpha1.APIServiceExportTemplate{}, handler.EnqueueRequestsFromMapFunc(ofTemplate), changed).
		WatchesMetadata(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(ofRights), changed).
		WatchesMetadata(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(ofRights), changed).
		Complete(w)
}

func ofTemplate(_ context.Context, o client.Object) []reconcile.Request {
	binding := o.(*v1alpha1.APIServiceExportTemplate).Spec.API.BindingName()
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: binding}}}
}

// ofRights tells whose rights an object is about. The rights of tenants on their
// claims say nothing of what they may bind.
func ofRights(_ context.Context, o client.Object) []reconcile.Request {
	name, isTenants := strings.CutPrefix(o.GetName(), v1alpha1.TenantRole(""))
	id, bind := strings.CutSuffix(name, ":bind")
	switch {
	case !isTenants:
		return []reconcile.Request{{}}
	case bind:
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: id}}}
	}
	return nil
}

// Reconcile has requests looked at.
func (w *Watch) Reconcile(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
	for _, s := range w.Sessions.All() {
		if r.Namespace != "" && s.Cluster.ID != r.Namespace {
			continue
		}
		main := s.View().Main
		if r.Name != "" {
			if _, ok := main.Entry(claim.RequestPath(r.Name)); ok {
				s.Enqueue(claim.RequestPath(r.Name), true)
			}
			continue
		}
		for e := range main.List(claim.Root) {
			if _, ok := claim.ParseRequestPath(e.Path); ok {
				s.Enqueue(e.Path, true)
			}
		}
	}
	return reconcile.Result{}, nil
}
