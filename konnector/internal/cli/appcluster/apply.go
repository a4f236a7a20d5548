package appcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Apply applies an object on the server's side and says in a line what that
// did: "secret/a in team-a created", changed or unchanged.
func (c *Cluster) Apply(ctx context.Context, o client.Object) (string, error) {
	u, err := c.unstructured(o)
	if err != nil {
		return "", err
	}
	before := &metav1.PartialObjectMetadata{}
	before.SetGroupVersionKind(u.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(u), before)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read %s: %w", Describe(u), err)
	}
	if err := c.WithWatch.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply %s: %w", Describe(u), err)
	}
	switch before.ResourceVersion {
	case "":
		return Describe(u) + " created", nil
	case u.GetResourceVersion():
		return Describe(u) + " unchanged", nil
	}
	return Describe(u) + " changed", nil
}

// Served are the objects that can be applied here: Kubernetes has the kinds MutatingAdmissionPolicy and
// MutatingAdmissionPolicyBinding since 1.36, and earlier API servers refuse their objects. left is told of each
// that it leaves out.
func Served[O client.Object](c *Cluster, objects []O, left func(O)) ([]client.Object, error) {
	var out []client.Object
	for _, o := range objects {
		gvk, err := c.GroupVersionKindFor(o)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(gvk.Kind, "MutatingAdmissionPolicy") {
			_, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
			if meta.IsNoMatchError(err) {
				left(o)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("look for the kind %s: %w", gvk.Kind, err)
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// Remove deletes an object, if there is one, and tells that under a name.
func (c *Cluster) Remove(ctx context.Context, o client.Object, name string, tell func(string)) error {
	err := c.Delete(ctx, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	tell(name + " deleted")
	return nil
}

// Annotate writes annotations of an object, and takes those away that are empty. If
// the object has a UID, that one only is changed, and if it has a resourceVersion, only
// as it was read. It becomes what it is then.
func (c *Cluster) Annotate(ctx context.Context, u *unstructured.Unstructured, annotations map[string]string) error {
	values := map[string]any{}
	for name, value := range annotations {
		if values[name] = value; value == "" {
			values[name] = nil
		}
	}
	metadata := map[string]any{"annotations": values}
	if u.GetUID() != "" {
		metadata["uid"] = u.GetUID()
	}
	if u.GetResourceVersion() != "" {
		metadata["resourceVersion"] = u.GetResourceVersion()
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return c.Patch(ctx, u, client.RawPatch(types.MergePatchType, patch), fieldOwner)
}

// unstructured is what a person would write of an object.
func (c *Cluster) unstructured(o client.Object) (*unstructured.Unstructured, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	gvk, err := apiutil.GVKForObject(o, c.Scheme())
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	delete(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, nil
}

// Describe names an object as kubectl does, with its namespace.
func Describe(u *unstructured.Unstructured) string {
	name := strings.ToLower(u.GetKind()) + "/" + u.GetName()
	if u.GetNamespace() != "" {
		name += " in " + u.GetNamespace()
	}
	return name
}
