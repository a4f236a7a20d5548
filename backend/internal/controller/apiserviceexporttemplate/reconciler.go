// Package apiserviceexporttemplate says of each offer whether it can be taken:
// the condition Offered, and the API's kind, from the CRD that is installed and
// the rights that operators have given. It changes nothing but the template's
// status; a condition that is not true says what to do.
package apiserviceexporttemplate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/status"
)

// Reconciler reconciles APIServiceExportTemplates.
type Reconciler struct {
	Client client.Client
	Now    func() time.Time
}

// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexporttemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexporttemplates/status,verbs=get;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=get;list;watch

// Reconcile judges one offer.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var t v1alpha1.APIServiceExportTemplate
	if err := r.Client.Get(ctx, req.NamespacedName, &t); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var offered rbacv1.ClusterRole
	if err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.OfferedAPIs}, &offered); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: t.Spec.API.BindingName()}, crd)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil {
		crd = nil
	}
	condition, kind := judge(t.Spec.API, crd, offered.Rules)
	want := t.DeepCopy()
	want.Status.Kind = kind
	status.Set(want, condition, r.Now())
	return ctrl.Result{}, client.IgnoreNotFound(part.Write(ctx, r.Client, &t, want))
}

var part = status.Part{Owner: "gitbind-backend", Fields: []string{"kind"}, Conditions: []string{v1alpha1.ConditionOffered}}

// judge gives the condition Offered, and the kind as far as it is known. crd is
// nil when there is none.
func judge(api v1alpha1.ExportedAPI, crd *apiextensionsv1.CustomResourceDefinition, offered []rbacv1.PolicyRule) (metav1.Condition, string) {
	no := func(reason, format string, args ...any) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionOffered, Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	if crd == nil {
		return no("NotInstalled", "the control plane has no CustomResourceDefinition %s: install the API, or correct spec.api", api.BindingName()), ""
	}
	kind := crd.Spec.Names.Kind
	served, beside := servedVersions(crd), contract.NotCarried(crd, api.Version)
	switch {
	case crd.Spec.Scope != apiextensionsv1.NamespaceScoped:
		return no("NotNamespaced", "%s is cluster-scoped: only namespaced APIs can be offered, for Crossplane a claim or a namespaced composite", crd.Name), kind
	case crd.DeletionTimestamp != nil:
		return no("Terminating", "CustomResourceDefinition %s is being deleted", crd.Name), kind
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		return no("NotEstablished", "CustomResourceDefinition %s is not served yet: see its conditions", crd.Name), kind
	case !slices.Contains(served, api.Version):
		return no("VersionNotServed", "%s is not served in version %s, but in %s: correct spec.api.version", crd.Name, api.Version, strings.Join(served, ", ")), kind
	case len(beside) > 0:
		return no("NotCarried", "%s has fields beside spec and status, which gitbind does not carry: %s. Offer an API that has all that people order in spec", crd.Name, strings.Join(beside, ", ")), kind
	case !grant.Offered(offered, api):
		return no("NotAllowed", "%s", grant.NotOffered(api)), kind
	}
	return metav1.Condition{Type: v1alpha1.ConditionOffered, Status: metav1.ConditionTrue, Reason: "Offered", Message: "the API is served and can be bound" + form(crd)}, kind
}

// form says what Crossplane makes of the API, by the category that it gives it.
func form(crd *apiextensionsv1.CustomResourceDefinition) string {
	switch {
	case slices.Contains(crd.Spec.Names.Categories, "claim"):
		return "; it is a claim of Crossplane"
	case slices.Contains(crd.Spec.Names.Categories, "composite"):
		return "; it is a namespaced composite of Crossplane"
	}
	return ""
}

func servedVersions(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var served []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	return served
}
