package appcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Bindings are the bound APIs; none when gitbind is not installed.
func (c *Cluster) Bindings(ctx context.Context) ([]v1alpha1.APIServiceBinding, error) {
	var list v1alpha1.APIServiceBindingList
	switch err := c.List(ctx, &list); {
	case meta.IsNoMatchError(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("list bindings: %w: the ClusterRole gitbind-view lets you", err)
	case err != nil:
		return nil, fmt.Errorf("list bindings: %w", err)
	}
	return list.Items, nil
}

// Binding is a bound API.
func (c *Cluster) Binding(ctx context.Context, name string) (*v1alpha1.APIServiceBinding, error) {
	var binding v1alpha1.APIServiceBinding
	switch err := c.Get(ctx, client.ObjectKey{Name: name}, &binding); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s is not bound in this cluster, so no repository has its claims: kubectl gitbind get bindings", name)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("read the binding %s: %w: the ClusterRole gitbind-view lets you", name, err)
	case err != nil:
		return nil, fmt.Errorf("read the binding %s: %w", name, err)
	}
	return &binding, nil
}

// Claims are objects of a bound API; none while it is not installed.
func (c *Cluster) Claims(ctx context.Context, binding string, which ...client.ListOption) ([]unstructured.Unstructured, error) {
	kind, err := c.KindOf(binding)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the API %s: %w", binding, err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list, which...); err != nil {
		return nil, fmt.Errorf("list %s: %w", binding, err)
	}
	return list.Items, nil
}
