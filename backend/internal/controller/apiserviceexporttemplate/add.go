package apiserviceexporttemplate

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	isOffered := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == v1alpha1.OfferedAPIs })
	return builder.ControllerManagedBy(mgr).
		Named("apiserviceexporttemplate").
		For(&v1alpha1.APIServiceExportTemplate{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.templates(func(t *v1alpha1.APIServiceExportTemplate, crd client.Object) bool {
			return t.Spec.API.BindingName() == crd.GetName()
		}))).
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.templates(func(*v1alpha1.APIServiceExportTemplate, client.Object) bool {
			return true
		})), builder.WithPredicates(isOffered)).
		WithOptions(o).
		Complete(r)
}

// templates maps an object to the templates that it concerns.
func (r *Reconciler) templates(concerns func(*v1alpha1.APIServiceExportTemplate, client.Object) bool) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list v1alpha1.APIServiceExportTemplateList
		if err := r.Client.List(ctx, &list); err != nil {
			log.FromContext(ctx).Error(err, "List APIServiceExportTemplates", "because", o.GetName())
			return nil
		}
		var requests []reconcile.Request
		for i := range list.Items {
			if t := &list.Items[i]; concerns(t, o) {
				requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: t.Name}})
			}
		}
		return requests
	}
}

// StripSchemas is a cache transform: of a CRD only names, scope, versions and
// conditions are looked at, and schemas are what makes them large.
func StripSchemas(o any) (any, error) {
	if crd, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.ManagedFields = nil
		crd.Annotations = nil
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema = nil
		}
	}
	return o, nil
}
