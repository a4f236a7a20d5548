package appcluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/usage"
)

// ClaimName is a claim that a person named.
type ClaimName struct {
	Kind schema.GroupVersionKind
	// Key has the binding, "<plural>.<group>".
	Key contract.Key
}

// Name understands KIND/NAME.
func (c *Cluster) Name(arg string) (ClaimName, error) {
	word, name, ok := strings.Cut(arg, "/")
	if !ok || word == "" || name == "" || strings.Contains(name, "/") {
		return ClaimName{}, usage.Errorf("%q names no claim: give KIND/NAME, for example postgresqlinstances.anynines.com/orders", arg)
	}
	kind, binding, err := c.API(word)
	if err != nil {
		return ClaimName{}, err
	}
	return ClaimName{Kind: kind, Key: contract.Key{Binding: binding, Namespace: c.Namespace, Name: name}}, nil
}

// API understands a word as kubectl does: a kind, a plural, a singular or a short
// name, with or without its group. The binding is "<plural>.<group>".
func (c *Cluster) API(word string) (kind schema.GroupVersionKind, binding string, err error) {
	mapper, err := c.mapper()
	if err != nil {
		return kind, "", fmt.Errorf("ask for the cluster's APIs: %w", err)
	}
	mapping, err := mappingFor(mapper, word)
	if meta.IsNoMatchError(err) {
		return kind, "", fmt.Errorf("this cluster has no API %q: kubectl gitbind get lists those that are bound", word)
	}
	if err != nil {
		return kind, "", fmt.Errorf("look for the API %s: %w", word, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return kind, "", fmt.Errorf("%s has no claims: claims are in namespaces", word)
	}
	return mapping.GroupVersionKind, mapping.Resource.GroupResource().String(), nil
}

// KindOf is the kind of a bound API, "<plural>.<group>". The error is one of
// meta.IsNoMatchError while the API is not installed.
func (c *Cluster) KindOf(binding string) (schema.GroupVersionKind, error) {
	resource, group, _ := strings.Cut(binding, ".")
	return c.RESTMapper().KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
}

// mappingFor is what kubectl does with the word before the slash.
func mappingFor(mapper meta.RESTMapper, word string) (*meta.RESTMapping, error) {
	full, resource := schema.ParseResourceArg(word)
	var kind schema.GroupVersionKind
	if full != nil {
		kind, _ = mapper.KindFor(*full)
	}
	if kind.Empty() {
		kind, _ = mapper.KindFor(resource.WithVersion(""))
	}
	if !kind.Empty() {
		return mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	fullKind, groupKind := schema.ParseKindArg(word)
	if fullKind != nil {
		if mapping, err := mapper.RESTMapping(fullKind.GroupKind(), fullKind.Version); err == nil {
			return mapping, nil
		}
	}
	return mapper.RESTMapping(groupKind)
}

// Object reads the object of a claim; nil when there is none.
func (c *Cluster) Object(ctx context.Context, n ClaimName) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(n.Kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: n.Key.Namespace, Name: n.Key.Name}, u)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", n.Key, err)
	}
	return u, nil
}

// Claim reads a claim. One without an object says why there is none, where the
// konnector told.
func (c *Cluster) Claim(ctx context.Context, n ClaimName) (*unstructured.Unstructured, error) {
	u, err := c.Object(ctx, n)
	if u != nil || err != nil {
		return u, err
	}
	var binding v1alpha1.APIServiceBinding
	if c.Get(ctx, client.ObjectKey{Name: n.Key.Binding}, &binding) == nil {
		for _, h := range binding.Status.Held {
			if h.Path == n.Key.Path() {
				return nil, fmt.Errorf("%s has no object in this cluster: %s (%s)", n.Key, h.Message, h.Reason)
			}
		}
	}
	return nil, fmt.Errorf("there is no %s: see kubectl gitbind get", n.Key)
}
