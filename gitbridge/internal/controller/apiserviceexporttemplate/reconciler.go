// Package apiserviceexporttemplate says of each template whether the bridge can
// use its patches: the condition TransformValid. A template whose patches cannot
// be used stops its own claims and nothing else.
package apiserviceexporttemplate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/internal/transform"
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
		Complete(r)
}

// Reconcile judges one template.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var t v1alpha1.APIServiceExportTemplate
	if err := r.Client.Get(ctx, req.NamespacedName, &t); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	condition := judge(&t)
	if condition == nil {
		if meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionTransformValid) == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, r.say(ctx, &t, nil)
	}
	conditions := append([]metav1.Condition{}, t.Status.Conditions...)
	condition.LastTransitionTime = metav1.NewTime(r.Now())
	if !meta.SetStatusCondition(&conditions, *condition) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.say(ctx, &t, meta.FindStatusCondition(conditions, condition.Type))
}

// judge is nil for a template without a transform.
func judge(t *v1alpha1.APIServiceExportTemplate) *metav1.Condition {
	if t.Spec.Transform == nil {
		return nil
	}
	c := &metav1.Condition{Type: v1alpha1.ConditionTransformValid, ObservedGeneration: t.Generation}
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

// say writes the bridge's condition, or takes it away.
func (r *Reconciler) say(ctx context.Context, t *v1alpha1.APIServiceExportTemplate, c *metav1.Condition) error {
	conditions := []any{}
	if c != nil {
		conditions = append(conditions, map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message,
			"observedGeneration": c.ObservedGeneration, "lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339),
		})
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("APIServiceExportTemplate"))
	u.SetName(t.Name)
	u.SetUID(t.UID)
	if err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(tenant.StatusOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("set status: %w", err)
	}
	return nil
}
