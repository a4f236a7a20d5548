package appcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/openapi3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Schema is by what the konnector compares the claims of a bound API, as far as
// people may read it.
func (c *Cluster) Schema(ctx context.Context, binding string, gvk schema.GroupVersionKind) (*contract.Schema, error) {
	published, err := c.published(ctx, gvk)
	if err != nil {
		return nil, err
	}
	keys, err := c.MetadataKeys(ctx, binding)
	return published.WithKeys(keys), err
}

// MetadataKeys are the labels and annotations that travel with the claims of an API
// beside the usual; none for one that is not bound, or whose binding the person may
// not read.
func (c *Cluster) MetadataKeys(ctx context.Context, binding string) (contract.Keys, error) {
	var b v1alpha1.APIServiceBinding
	err := c.Get(ctx, client.ObjectKey{Name: binding}, &b)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read binding %s: %w", binding, err)
	}
	return b.Status.MetadataKeys, nil
}

// publishedWithin is how long the API server may take to publish the schema of a kind that it
// serves: a second or two, and more where it is busy.
const publishedWithin = time.Minute

var errNotPublished = errors.New("the cluster publishes none")

// published is what the API server publishes of a kind, to everybody: few people may
// read CustomResourceDefinitions. It does so a while after it serves the kind.
func (c *Cluster) published(ctx context.Context, gvk schema.GroupVersionKind) (found *contract.Schema, err error) {
	again := false
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, publishedWithin, true, func(context.Context) (bool, error) {
		found, err = c.publishedNow(gvk, again)
		if again = errors.Is(err, errNotPublished); again {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = errNotPublished
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the schema of %s: %w", gvk.Kind, err)
	}
	return found, nil
}

func (c *Cluster) publishedNow(gvk schema.GroupVersionKind, again bool) (*contract.Schema, error) {
	openAPI, err := c.openAPI(again)
	if err != nil {
		return nil, err
	}
	spec, err := openapi3.NewRoot(openAPI).GVSpecAsMap(gvk.GroupVersion())
	if missing := (*openapi3.GroupVersionNotFoundError)(nil); errors.As(err, &missing) {
		return nil, errNotPublished
	}
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var published struct {
		Components struct {
			Schemas map[string]struct {
				Kinds      []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
				Properties struct {
					Spec apiextensionsv1.JSONSchemaProps `json:"spec"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &published); err != nil {
		return nil, err
	}
	for _, s := range published.Components.Schemas {
		if slices.Contains(s.Kinds, gvk) {
			return schemaOf(gvk, s.Properties.Spec)
		}
	}
	return nil, errNotPublished
}

func schemaOf(gvk schema.GroupVersionKind, spec apiextensionsv1.JSONSchemaProps) (*contract.Schema, error) {
	preserve := true
	if spec.Type == "" { // the kind does not say what its spec is
		spec = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group, crd.Spec.Names.Kind = gvk.Group, gvk.Kind
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: gvk.Version, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
		}},
	}}
	return contract.NewSchema(crd)
}
