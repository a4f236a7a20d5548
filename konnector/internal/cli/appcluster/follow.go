package appcluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow tells of each object of a kind, as it is now and whenever it changes,
// until the context ends or changed gives an error.
func (c *Cluster) Follow(ctx context.Context, gvk schema.GroupVersionKind, namespace string, selector labels.Selector, changed func(u *unstructured.Unstructured, gone bool) error) error {
	watched := c.listWatch(gvk, func(o metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{Namespace: namespace, LabelSelector: selector, Raw: &o}
	})
	_, err := watchtools.UntilWithSync(ctx, watched, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		if u, ok := e.Object.(*unstructured.Unstructured); ok {
			return false, changed(u, e.Type == watch.Deleted)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	return nil
}
