// Package status writes the backend's part of an object's status: by
// server-side apply, so that the bridge's conditions on the same object stay as
// they are, and only when something has changed.
package status

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// FieldOwner is the backend's, in all that it applies.
const FieldOwner = client.FieldOwner("gitbind-backend")

// Part is the backend's part of one object's status.
type Part struct {
	// Kind of the object, one of gitbind.dev/v1alpha1.
	Kind   string
	Object client.Object
	// Owner of what is applied; FieldOwner if it is "". What one owner wrote before
	// and leaves out now is removed.
	Owner client.FieldOwner
	// Present are all conditions that the object has.
	Present []metav1.Condition
	// Condition is the backend's own. Generation and time are filled in.
	Condition metav1.Condition
	// Fields are the backend's further fields; Changed says that they differ
	// from those of the object.
	Fields  map[string]any
	Changed bool
}

// Apply writes the part, if it differs from what is there.
func (p Part) Apply(ctx context.Context, c client.Client, now time.Time) error {
	want := p.Condition
	want.ObservedGeneration = p.Object.GetGeneration()
	want.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if is := meta.FindStatusCondition(p.Present, want.Type); is != nil {
		if is.Status == want.Status {
			want.LastTransitionTime = is.LastTransitionTime
		}
		if !p.Changed && *is == want {
			return nil
		}
	}
	condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return err
	}
	fields := map[string]any{"conditions": []any{condition}}
	for k, v := range p.Fields {
		fields[k] = v
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(p.Kind))
	u.SetName(p.Object.GetName())
	u.SetNamespace(p.Object.GetNamespace())
	if err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), cmp.Or(p.Owner, FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply status of %s %s: %w", p.Kind, p.Object.GetName(), err)
	}
	return nil
}
