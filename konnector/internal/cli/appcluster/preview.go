package appcluster

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/konnector/internal/cli/output"
)

// Preview says in a line what Apply would do, and does nothing. What is not
// there yet is not tried out: its namespace or its kind may be missing, too.
func (c *Cluster) Preview(ctx context.Context, o client.Object) (string, error) {
	u, err := c.unstructured(o)
	if err != nil {
		return "", err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(u.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(u), live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return Describe(u) + " would be created", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", Describe(u), err)
	}
	if err := c.WithWatch.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership, client.DryRunAll); err != nil {
		return "", fmt.Errorf("try to apply %s: %w", Describe(u), err)
	}
	for _, o := range []*unstructured.Unstructured{live, u} {
		// Who owns a field, and how often it was written, is no content.
		o.SetManagedFields(nil)
		o.SetGeneration(0)
		o.SetResourceVersion("")
	}
	if equality.Semantic.DeepEqual(live.Object, u.Object) {
		return Describe(u) + " is up to date", nil
	}
	return Describe(u) + " would be changed", nil
}

// PreviewAll says in a line for each object what Apply would do.
func (c *Cluster) PreviewAll(ctx context.Context, w io.Writer, objects []client.Object) error {
	for _, o := range objects {
		line, err := c.Preview(ctx, o)
		if err != nil {
			return err
		}
		fmt.Fprintln(w, "  "+line)
	}
	return nil
}

// Print prints objects as a person would write them into a file.
func (c *Cluster) Print(w io.Writer, objects []client.Object) error {
	for _, o := range objects {
		u, err := c.unstructured(o)
		if err != nil {
			return err
		}
		for _, field := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp"} {
			unstructured.RemoveNestedField(u.Object, "metadata", field)
		}
		fmt.Fprintln(w, "---")
		if err := output.Data(w, output.YAML, u.Object); err != nil {
			return err
		}
	}
	return nil
}
