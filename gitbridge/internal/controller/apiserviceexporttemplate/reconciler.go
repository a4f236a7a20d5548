// Package apiserviceexporttemplate says of each template whether the bridge can
// use its patches and its policies: the conditions TransformValid and PoliciesValid. A
// template that cannot be used stops its own claims and nothing else.
package apiserviceexporttemplate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/internal/transform"
	"gitbind.dev/gitbridge/policy"
	"gitbind.dev/gitbridge/status"
)

// Reconciler judges templates.
type Reconciler struct {
	Client client.Client
	Now    func() time.Time
}

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("apiserviceexporttemplate").
		For(&v1alpha1.APIServiceExportTemplate{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(backoff.Controller(1)).
		Complete(r)
}

// Reconcile judges one template.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var t v1alpha1.APIServiceExportTemplate
	if err := r.Client.Get(ctx, req.NamespacedName, &t); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	want := t.DeepCopy()
	for kind, c := range map[string]*metav1.Condition{
		v1alpha1.ConditionTransformValid: transformCondition(&t), v1alpha1.ConditionPoliciesValid: policiesCondition(&t),
	} {
		if c != nil {
			status.Set(want, *c, r.Now())
		} else {
			meta.RemoveStatusCondition(&want.Status.Conditions, kind)
		}
	}
	return ctrl.Result{}, part.Write(ctx, r.Client, &t, want)
}

var part = status.Part{Owner: tenant.StatusOwner, Conditions: []string{v1alpha1.ConditionTransformValid, v1alpha1.ConditionPoliciesValid}}

// transformCondition is nil for a template without a transform.
func transformCondition(t *v1alpha1.APIServiceExportTemplate) *metav1.Condition {
	if t.Spec.Transform == nil {
		return nil
	}
	c := &metav1.Condition{Type: v1alpha1.ConditionTransformValid}
	_, err := transform.Compile(t.Name, t.Spec.Transform)
	if err == nil {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Valid", "the patches can be applied to claims"
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Invalid", err.Error()
	var bad *transform.TemplateError
	if errors.As(err, &bad) {
		c.Message = fmt.Sprintf("spec.transform.patches[%d] %s. New and changed claims wait until it is mended; the others stay as they are", bad.Patch-1, bad.Reason)
	}
	return c
}

// policiesCondition is nil for a template without policies.
func policiesCondition(t *v1alpha1.APIServiceExportTemplate) *metav1.Condition {
	set, err := policy.Compile(t.Spec.Policies)
	switch {
	case err != nil:
		return &metav1.Condition{
			Type: v1alpha1.ConditionPoliciesValid, Status: metav1.ConditionFalse, Reason: "Invalid",
			Message: policy.Told(err) + ". New and changed claims wait until it is mended; the others stay as they are",
		}
	case set == nil:
		return nil
	}
	api := t.Spec.API
	idle := set.Idle(schema.GroupVersionResource{Group: api.Group, Version: api.Version, Resource: api.Resource})
	judging := slices.DeleteFunc(set.Policies(), func(name string) bool { return slices.Contains(idle, name) })
	message := "claims are judged by " + cmp.Or(strings.Join(judging, ", "), "no policy")
	if len(idle) > 0 {
		message += fmt.Sprintf(", and not by %s: there is no rule about %s of %s/%s, or no binding that denies", strings.Join(idle, ", "), api.Resource, api.Group, api.Version)
	}
	return &metav1.Condition{Type: v1alpha1.ConditionPoliciesValid, Status: metav1.ConditionTrue, Reason: "Valid", Message: message}
}
