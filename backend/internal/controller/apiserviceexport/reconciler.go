// Package apiserviceexport turns grants into rights: for each app cluster it
// keeps the ClusterRole gitbind:tenant:<id>, which holds the rights on all APIs
// that APIServiceExports grant to that cluster, and says in each export's
// condition Granted whether it is in.
//
// The ClusterRole alone gives nobody anything: the bridge binds it in the
// cluster's claim namespaces. The controller refuses to grant what operators
// have not offered (package grant); one such export does not stop the others.
package apiserviceexport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/status"
)

// Reconciler reconciles the grants of one app cluster at a time: its requests
// are names of ClusterBindings, so that the last export's removal is seen even
// if it happened while nobody watched.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	Now  func() time.Time
}

// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexports,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexports/status,verbs=get;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=get;list;watch;create;patch

// Reconcile brings a cluster's rights in line with its exports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cb v1alpha1.ClusterBinding
	if err := r.Client.Get(ctx, req.NamespacedName, &cb); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cb.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // the role is owned by it
	}
	var exports v1alpha1.APIServiceExportList
	if err := r.Client.List(ctx, &exports, client.InNamespace(v1alpha1.TenantNamespace(cb.Name))); err != nil {
		return ctrl.Result{}, err
	}
	var offered rbacv1.ClusterRole
	if err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.OfferedAPIs}, &offered); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	granted, refused := divide(exports.Items, offered.Rules)
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(role(&cb, granted)), fieldOwner, client.ForceOwnership)
	if err != nil {
		err = fmt.Errorf("apply ClusterRole %s: %w", v1alpha1.TenantRole(cb.Name), err)
	}
	errs := []error{r.takeBack(ctx, &cb, exports.Items)}
	for _, e := range granted {
		errs = append(errs, r.report(ctx, e, grantedCondition(err)))
	}
	for _, e := range refused {
		errs = append(errs, r.report(ctx, e, metav1.Condition{
			Type: v1alpha1.ConditionGranted, Status: metav1.ConditionFalse, Reason: "NotOffered", Message: grant.NotOffered(e.Spec.API),
		}))
	}
	return ctrl.Result{}, errors.Join(append(errs, err)...)
}

// divide says which exports are to be granted and which are not. Those on their
// way out are neither.
func divide(exports []v1alpha1.APIServiceExport, offered []rbacv1.PolicyRule) (granted, refused []*v1alpha1.APIServiceExport) {
	for i := range exports {
		switch e := &exports[i]; {
		case e.DeletionTimestamp != nil:
		case grant.Offered(offered, e.Spec.API):
			granted = append(granted, e)
		default:
			refused = append(refused, e)
		}
	}
	byName := func(a, b *v1alpha1.APIServiceExport) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(granted, byName)
	slices.SortFunc(refused, byName)
	return granted, refused
}

// role is a tenant's ClusterRole with the rights on these exports. It says so
// when there are none: rules that somebody else wrote there must go too, and a
// typed apply configuration would leave an empty list out.
func role(cb *v1alpha1.ClusterBinding, granted []*v1alpha1.APIServiceExport) *unstructured.Unstructured {
	list := func(words []string) (out []any) {
		for _, w := range words {
			out = append(out, w)
		}
		return out
	}
	rules := []any{}
	for _, e := range granted {
		rule := grant.Rule(e.Spec.API)
		rules = append(rules, map[string]any{"apiGroups": list(rule.APIGroups), "resources": list(rule.Resources), "verbs": list(rule.Verbs)})
	}
	u := &unstructured.Unstructured{Object: map[string]any{"rules": rules}}
	u.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	u.SetName(v1alpha1.TenantRole(cb.Name))
	u.SetLabels(map[string]string{v1alpha1.LabelCluster: cb.Name})
	u.SetOwnerReferences(v1alpha1.ClusterOwners(cb.Name, cb.UID, new(true)))
	return u
}

func grantedCondition(err error) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionGranted, Status: metav1.ConditionTrue, Reason: "Granted", Message: "the tenant holds the rights on this API"}
	if err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Failed", "the tenant's rights could not be written; it is tried again, and the backend's log says why"
	}
	return c
}

// fieldOwner is the backend's, in all that it applies.
const fieldOwner = client.FieldOwner("gitbind-backend")

var part = status.Part{Owner: fieldOwner, Conditions: []string{v1alpha1.ConditionGranted}}

func (r *Reconciler) report(ctx context.Context, e *v1alpha1.APIServiceExport, c metav1.Condition) error {
	want := e.DeepCopy()
	status.Set(want, c, r.Now())
	return client.IgnoreNotFound(part.Write(ctx, r.Client, e, want))
}
