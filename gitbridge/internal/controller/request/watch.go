package request

import (
	"context"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
)

// Watch has requests looked at when offers change, or who may bind them. Its own
// requests name what changed: as namespace a cluster's id and as name a binding,
// "" for all of them.
type Watch struct {
	Sessions *session.Registry

	// last is when all requests were looked at. One at a time reads and writes it.
	last time.Time
}

// SetupWithManager adds the watch to a manager.
func (w *Watch) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("request-watch").
		Watches(&v1alpha1.APIServiceExportTemplate{}, handler.EnqueueRequestsFromMapFunc(ofTemplate), changed).
		// Of a change, what was before it and what is after it are asked about.
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(ofRole), changed).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(ofBinding), changed).
		WithOptions(backoff.Controller(1)).
		Complete(w)
}

func ofTemplate(_ context.Context, o client.Object) []reconcile.Request {
	binding := o.(*v1alpha1.APIServiceExportTemplate).Spec.API.BindingName()
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: binding}}}
}

// ofRole tells whose right to bind a role may be about. What a role says is for
// the API server to judge; most say nothing of offers.
func ofRole(_ context.Context, o client.Object) []reconcile.Request {
	name, isTenants := strings.CutPrefix(o.GetName(), v1alpha1.TenantRole(""))
	id, isBind := strings.CutSuffix(name, ":bind")
	switch {
	case isTenants && isBind:
		return ofCluster(id)
	case !isTenants && slices.ContainsFunc(o.(*rbacv1.ClusterRole).Rules, isOfBinding):
		return []reconcile.Request{{}}
	}
	return nil
}

func isOfBinding(r rbacv1.PolicyRule) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, rbacv1.ResourceAll)
	}
	return has(r.APIGroups, v1alpha1.GroupVersion.Group) && has(r.Resources, "apiserviceexporttemplates") && has(r.Verbs, "bind")
}

// ofBinding tells whose rights a binding of a role may be about: those of one
// cluster's ServiceAccount, or of all.
func ofBinding(_ context.Context, o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, s := range o.(*rbacv1.ClusterRoleBinding).Subjects {
		requests = append(requests, ofSubject(s)...)
	}
	return requests
}

func ofSubject(s rbacv1.Subject) []reconcile.Request {
	namespace := ""
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name == v1alpha1.TenantServiceAccount {
			namespace = s.Namespace
		}
	case rbacv1.UserKind:
		user, isAccount := strings.CutPrefix(s.Name, "system:serviceaccount:")
		if of, name, _ := strings.Cut(user, ":"); isAccount && name == v1alpha1.TenantServiceAccount {
			namespace = of
		}
	case rbacv1.GroupKind:
		if s.Name == "system:serviceaccounts" || s.Name == "system:authenticated" {
			return []reconcile.Request{{}}
		}
		if of, ok := strings.CutPrefix(s.Name, "system:serviceaccounts:"); ok {
			namespace = of
		}
	}
	if id, ok := strings.CutPrefix(namespace, v1alpha1.TenantNamespace("")); ok {
		return ofCluster(id)
	}
	return nil
}

func ofCluster(id string) []reconcile.Request {
	if !v1alpha1.ValidClusterID(id) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: id}}}
}

// wait is how long all requests of all clusters are not to be looked at again:
// where many roles change, that is done once.
func (w *Watch) wait(now time.Time) time.Duration {
	if left := rightsDelay - now.Sub(w.last); left > 0 {
		return left
	}
	w.last = now
	return 0
}

// Reconcile has requests looked at.
func (w *Watch) Reconcile(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
	if r == (reconcile.Request{}) {
		if wait := w.wait(time.Now()); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	for _, s := range w.Sessions.All() {
		if r.Namespace != "" && s.Cluster.ID != r.Namespace {
			continue
		}
		main := s.View().Main
		if r.Name != "" {
			if _, ok := main.Entry(contract.RequestPath(r.Name)); ok {
				s.Enqueue(contract.RequestPath(r.Name), true)
			}
			continue
		}
		for e := range main.List(contract.Root) {
			if _, ok := contract.ParseRequestPath(e.Path); ok {
				s.Enqueue(e.Path, true)
			}
		}
	}
	return reconcile.Result{}, nil
}
