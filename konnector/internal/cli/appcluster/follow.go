package appcluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow tells of each object of a kind, as it is now and whenever it changes,
// until the context ends or changed gives an error.
func (c *Cluster) Follow(ctx context.Context, gvk schema.GroupVersionKind, namespace string, selector labels.Selector, changed func(u *unstructured.Unstructured, gone bool) error) error {
	all := func(o metav1.ListOptions) (*unstructured.UnstructuredList, *client.ListOptions) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return list, &client.ListOptions{Namespace: namespace, LabelSelector: selector, Raw: &o}
	}
	watched := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, options := all(o)
			return list, c.List(ctx, list, options)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			list, options := all(o)
			return c.Watch(ctx, list, options)
		},
	}
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
