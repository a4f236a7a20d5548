package fakeapi

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var lastVersion atomic.Int64

// NewVersion is a resourceVersion that no object of these fakes has had.
func NewVersion() string { return strconv.FormatInt(1000+lastVersion.Add(1), 10) }

// isCustom reports whether objects of a group are custom resources, which have a generation.
func isCustom(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// created is an object as it is stored first.
func created(sent *unstructured.Unstructured) *unstructured.Unstructured {
	next := sent.DeepCopy()
	next.SetUID(uuid.NewUUID())
	next.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	next.SetDeletionTimestamp(nil)
	next.SetResourceVersion(NewVersion())
	if isCustom(next.GroupVersionKind().Group) {
		next.SetGeneration(1)
		unstructured.RemoveNestedField(next.Object, "status")
	}
	return next
}

// updated is what becomes of an object by an update of all but its status. It keeps its
// resourceVersion if it stays as it is.
func updated(of schema.GroupResource, live, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if uid := sent.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, conflict(of, live, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, live.GetUID()))
	}
	if version := sent.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return nil, conflict(of, live, changed)
	}
	next := sent.DeepCopy()
	next.SetUID(live.GetUID())
	next.SetCreationTimestamp(live.GetCreationTimestamp())
	next.SetDeletionTimestamp(live.GetDeletionTimestamp())
	next.SetGeneration(live.GetGeneration())
	next.SetResourceVersion(live.GetResourceVersion())
	if err := immutable(live, next); err != nil {
		return nil, err
	}
	if isCustom(live.GroupVersionKind().Group) {
		unstructured.RemoveNestedField(next.Object, "status")
		if status, ok := live.Object["status"]; ok {
			next.Object["status"] = status
		}
		if !equality.Semantic.DeepEqual(content(live), content(next)) {
			next.SetGeneration(live.GetGeneration() + 1)
		}
	}
	next.SetManagedFields(live.GetManagedFields())
	if !equality.Semantic.DeepEqual(live.Object, next.Object) {
		next.SetResourceVersion(NewVersion())
	}
	return next, nil
}

// content is what the generation counts the changes of.
func content(u *unstructured.Unstructured) map[string]any {
	all := maps.Clone(u.Object)
	delete(all, "metadata")
	delete(all, "status")
	return all
}

// immutable refuses what cannot be changed of Secrets and ConfigMaps.
func immutable(live, next *unstructured.Unstructured) error {
	kind := live.GroupVersionKind()
	if kind.Group != "" || kind.Kind != "Secret" && kind.Kind != "ConfigMap" {
		return nil
	}
	var all field.ErrorList
	if is := next.Object["type"]; !equality.Semantic.DeepEqual(live.Object["type"], is) {
		all = append(all, field.Invalid(field.NewPath("type"), is, "field is immutable"))
	}
	if yes, _, _ := unstructured.NestedBool(live.Object, "immutable"); yes {
		for _, name := range []string{"immutable", "data"} {
			if !equality.Semantic.DeepEqual(live.Object[name], next.Object[name]) {
				all = append(all, field.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set"))
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind.GroupKind(), live.GetName(), all)
}

// Apply is what becomes of a custom resource, nil for none, by a server-side apply of all its
// fields but the status. Others own no fields of it.
func Apply(of schema.GroupResource, live, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch {
	case live == nil && sent.GetUID() != "":
		return nil, apierrors.NewConflict(of, sent.GetName(), fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", sent.GetUID()))
	case live == nil:
		return created(sent), nil
	case sent.GetResourceVersion() == "0":
		return nil, apierrors.NewInvalid(live.GroupVersionKind().GroupKind(), live.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	next := sent.DeepCopy()
	next.SetFinalizers(live.GetFinalizers())
	return patched(of, live, next)
}

// patched is what becomes of an object by a patch, once that is merged. Its UID is looked at
// last, and is a field like others.
func patched(of schema.GroupResource, live, merged *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	sent := merged.DeepCopy()
	sent.SetUID("")
	next, err := updated(of, live, sent)
	if uid := merged.GetUID(); err == nil && uid != "" && uid != live.GetUID() {
		return nil, apierrors.NewInvalid(live.GroupVersionKind().GroupKind(), live.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"),
		})
	}
	return next, err
}

// Delete is what becomes of an object when it is deleted, nil if it is gone.
func Delete(of schema.GroupResource, live *unstructured.Unstructured, o metav1.DeleteOptions) (*unstructured.Unstructured, error) {
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != live.GetUID() {
			return nil, conflict(of, live, fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, live.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != live.GetResourceVersion() {
			return nil, conflict(of, live, fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, live.GetResourceVersion()))
		}
	}
	next := live.DeepCopy()
	if o.PropagationPolicy != nil && *o.PropagationPolicy == metav1.DeletePropagationForeground && live.GetDeletionTimestamp() == nil {
		next.SetFinalizers(append(next.GetFinalizers(), metav1.FinalizerDeleteDependents))
	}
	if len(next.GetFinalizers()) == 0 {
		return nil, nil
	}
	if live.GetDeletionTimestamp() == nil {
		next.SetDeletionTimestamp(new(metav1.Now().Rfc3339Copy()))
		next.SetResourceVersion(NewVersion())
		if isCustom(live.GroupVersionKind().Group) {
			next.SetGeneration(live.GetGeneration() + 1)
		}
	}
	return next, nil
}

const changed = "the object has been modified; please apply your changes to the latest version and try again"

func conflict(of schema.GroupResource, live *unstructured.Unstructured, why string) error {
	return apierrors.NewConflict(of, live.GetName(), errors.New(why))
}
