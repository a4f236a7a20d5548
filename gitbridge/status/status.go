// Package status writes the status of gitbind's kinds. A reconciler changes a copy
// of the object that it has read and hands both over: what differs is written,
// once, and nothing if nothing does. Where several write, each has a Part, and what
// is another's stays as it is. Where one process writes all, it is replaced.
//
// It refuses to write on anything but the object that was read: one that was
// deleted and made again under the same name is another.
package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Set sets a condition, of the object's generation. It is so since now, if its
// status was another one before.
func Set(o conditions.Setter, c metav1.Condition, now time.Time) {
	c.ObservedGeneration, c.LastTransitionTime = o.GetGeneration(), metav1.NewTime(now.Truncate(time.Second))
	all := o.GetConditions()
	meta.SetStatusCondition(&all, c)
	o.SetConditions(all)
}

// Part is what one writer says in the status of a kind. All of it is written
// together: what an owner wrote before and leaves out now is removed.
type Part struct {
	Owner client.FieldOwner
	// Fields are names in the JSON of the status, and Conditions types.
	Fields, Conditions []string
	// Locked has a write refused as a conflict if the object was changed since it
	// was read, by anybody.
	Locked bool
}

// Write writes this part of want, which is a changed copy of before, if they differ.
func (p Part) Write(ctx context.Context, c client.Client, before, want conditions.Setter) error {
	if equality.Semantic.DeepEqual(before, want) {
		return nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	all, _, _ := unstructured.NestedMap(object, "status")
	said, _ := all["conditions"].([]any)
	// Also where there is none any more: a status from which all is removed would be
	// null, which the API server refuses.
	own := map[string]any{"conditions": slices.DeleteFunc(append([]any{}, said...), func(c any) bool {
		kind, _, _ := unstructured.NestedString(c.(map[string]any), "type")
		return !slices.Contains(p.Conditions, kind)
	})}
	for _, name := range p.Fields {
		if v, ok := all[name]; ok {
			own[name] = v
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": own}}
	gvk, err := c.GroupVersionKindFor(want)
	if err != nil {
		return err
	}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(want.GetNamespace())
	u.SetName(want.GetName())
	if err := p.apply(ctx, c, want, u); err != nil {
		return fmt.Errorf("apply status of %s %s: %w", gvk.Kind, u.GetName(), err)
	}
	return nil
}

// tries bounds how often a part is applied beside others' writes.
const tries = 5

// apply applies u to the object that was read. Of that, the API server compares the
// resourceVersion only: in the status of a custom resource it ignores a UID. So the
// UID is compared here, where another has written meanwhile.
func (p Part) apply(ctx context.Context, c client.Client, read client.Object, u *unstructured.Unstructured) error {
	u.SetResourceVersion(read.GetResourceVersion())
	for try := 1; ; try++ {
		err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), p.Owner, client.ForceOwnership)
		if !apierrors.IsConflict(err) || p.Locked || try == tries {
			return err
		}
		// A manager's client reads what is unstructured from the API server.
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(u.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(read), live); err != nil {
			return err
		}
		if live.GetUID() != read.GetUID() {
			return err
		}
		u.SetResourceVersion(live.GetResourceVersion())
	}
}

// Replace replaces the status by that of want, which is a changed copy of before,
// if they differ. It is a conflict if the object was changed since it was read. In
// want is then what the API server has.
func Replace(ctx context.Context, c client.Client, before, want client.Object) error {
	if equality.Semantic.DeepEqual(before, want) {
		return nil
	}
	return c.Status().Update(ctx, want)
}
