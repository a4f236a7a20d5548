package apiserviceexport

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/offered"
	"gitbind.dev/gitbridge/internal/tenant"
)

// say writes the bridge's fields of an export's status, if they say something
// else than before. Without a definition the present snapshot stays.
func (r *Reconciler) say(ctx context.Context, e *v1alpha1.APIServiceExport, d *offered.Definition, condition metav1.Condition) error {
	snapshot := e.Status.CRD
	if d != nil {
		snapshot = d.Snapshot
	}
	condition.Type, condition.ObservedGeneration = v1alpha1.ConditionPublished, e.Generation
	conditions := append([]metav1.Condition{}, e.Status.Conditions...)
	if !meta.SetStatusCondition(&conditions, condition) && equal(snapshot, e.Status.CRD) {
		return nil
	}
	condition = *meta.FindStatusCondition(conditions, condition.Type)
	fields := map[string]any{"conditions": []any{map[string]any{
		"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason, "message": condition.Message,
		"observedGeneration": condition.ObservedGeneration, "lastTransitionTime": condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
	}}}
	if snapshot != nil {
		crd := map[string]any{}
		if err := json.Unmarshal(snapshot.Raw, &crd); err != nil {
			return fmt.Errorf("decode the snapshot of %s: %w", e.Name, err)
		}
		fields["crd"] = crd
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("APIServiceExport"))
	u.SetNamespace(e.Namespace)
	u.SetName(e.Name)
	u.SetUID(e.UID)
	if err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(tenant.StatusOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("set status: %w", err)
	}
	return nil
}

func equal(a, b *runtime.RawExtension) bool {
	if a == nil || b == nil {
		return a == b
	}
	var x, y any
	return json.Unmarshal(a.Raw, &x) == nil && json.Unmarshal(b.Raw, &y) == nil && reflect.DeepEqual(x, y)
}
