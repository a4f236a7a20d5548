package bind

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

// grantable refuses an API that no control plane may bring: the name comes from
// it, and becomes a rule of a ClusterRole here.
func grantable(api v1alpha1.ExportedAPI) error {
	if err := contract.ValidateBinding(api.BindingName()); err != nil {
		return fmt.Errorf("the control plane offers an API that cannot be: %w", err)
	}
	if !strings.Contains(api.Group, ".") || strings.Contains(api.Resource, ".") {
		return fmt.Errorf("the control plane offers %q in the group %q: Kubernetes' own groups cannot be bound", api.Resource, api.Group)
	}
	for _, reserved := range []string{"k8s.io", "kubernetes.io", "gitbind.dev"} {
		if api.Group == reserved || strings.HasSuffix(api.Group, "."+reserved) {
			return fmt.Errorf("the control plane offers %q in the reserved group %q: it cannot be bound", api.Resource, api.Group)
		}
	}
	return nil
}

// checkOwn refuses an API that this cluster has from somebody else.
func checkOwn(ctx context.Context, c *appcluster.Cluster, api v1alpha1.ExportedAPI) error {
	name := api.BindingName()
	var crd apiextensionsv1.CustomResourceDefinition
	err := c.Get(ctx, client.ObjectKey{Name: name}, &crd)
	if err == nil {
		if _, ours := crd.Annotations[v1alpha1.ConnectionAnnotation]; !ours {
			return fmt.Errorf("this cluster has the API %s already, and not from gitbind: it stays as it is. Remove its CustomResourceDefinition first if it is not needed", name)
		}
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for the API %s: %w", name, err)
	}
	_, err = c.RESTMapper().ResourceFor(schema.GroupVersionResource{Group: api.Group, Resource: api.Resource})
	if err == nil {
		return fmt.Errorf("this cluster has the API %s already, and not from gitbind: it stays as it is", name)
	}
	if !meta.IsNoMatchError(err) {
		return fmt.Errorf("look for the API %s: %w", name, err)
	}
	return nil
}
