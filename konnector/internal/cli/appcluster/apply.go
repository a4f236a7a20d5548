package appcluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
