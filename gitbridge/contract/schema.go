package contract

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// Schema is the bound API's, as the app cluster serves it. It may be used by
// many goroutines at once.
type Schema struct {
	apiVersion string
	kind       string
	spec       *structural.Structural
	keys       Keys
}

// NewSchema takes the schema of the storage version of a CRD.
func NewSchema(crd *apiextensionsv1.CustomResourceDefinition) (*Schema, error) {
	for _, v := range crd.Spec.Versions {
		if !v.Storage {
			continue
		}
		_, s, err := VersionSchema(crd, v.Name)
		if err != nil {
			return nil, err
		}
		spec := s.Properties["spec"]
		return &Schema{apiVersion: crd.Spec.Group + "/" + v.Name, kind: crd.Spec.Names.Kind, spec: &spec}, nil
	}
	return nil, fmt.Errorf("schema of %s: no storage version with a schema", crd.Name)
}

// VersionSchema reads the schema of one version of a CRD: as values are
// validated by it, and as they are pruned and get their defaults by it.
func VersionSchema(crd *apiextensionsv1.CustomResourceDefinition, version string) (*apiextensions.JSONSchemaProps, *structural.Structural, error) {
	for _, v := range crd.Spec.Versions {
		if v.Name != version || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return nil, nil, fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		s, err := structural.NewStructural(&props)
		if err != nil {
			return nil, nil, fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		return &props, s, nil
	}
	return nil, nil, fmt.Errorf("schema of %s: no schema in version %s", crd.Name, version)
}

// NotCarried are the fields of one version of an API beside spec and status, sorted:
// a claim file has no place for them.
func NotCarried(crd *apiextensionsv1.CustomResourceDefinition, version string) []string {
	carried := []string{"apiVersion", "kind", "metadata", "spec", "status"}
	var out []string
	for _, v := range crd.Spec.Versions {
		if v.Name != version || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(v.Schema.OpenAPIV3Schema.Properties)) {
			if !slices.Contains(carried, field) {
				out = append(out, field)
			}
		}
	}
	return out
}

// WithKeys is the schema of an API with whose claims these labels and annotations
// travel, too.
func (s *Schema) WithKeys(keys Keys) *Schema {
	out := *s
	out.keys = keys
	return &out
}

// Keys are those of WithKeys.
func (s *Schema) Keys() Keys { return s.keys }

// Kind is the API's kind.
func (s *Schema) Kind() string { return s.kind }

// Knows reports whether the schema has all fields of a version's spec. An object that the
// API server gave has no others, unless it goes by another schema.
func (s *Schema) Knows(c *Claim) bool {
	unknown := pruning.PruneWithOptions(runtime.DeepCopyJSON(c.Spec), s.spec, false, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	return len(unknown) == 0
}

// Normalize gives the form in which versions are compared: in the API's one
// version, without fields that the schema does not know, with its defaults, and
// with the labels and annotations that travel. The argument is not changed.
func (s *Schema) Normalize(c *Claim) *Claim {
	out := s.keys.Of(c).clone()
	out.APIVersion = s.apiVersion
	pruning.Prune(out.Spec, s.spec, false)
	defaulting.PruneNonNullableNullsWithoutDefaults(out.Spec, s.spec)
	defaulting.Default(out.Spec, s.spec)
	out.Spec = canonical(runtime.DeepCopyJSON(out.Spec)).(map[string]any)
	return out
}
