package claim

import (
	"fmt"

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
}

// NewSchema takes the schema of the storage version of a CRD.
func NewSchema(crd *apiextensionsv1.CustomResourceDefinition) (*Schema, error) {
	for _, v := range crd.Spec.Versions {
		if !v.Storage || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		s, err := structural.NewStructural(&internal)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		spec := s.Properties["spec"]
		return &Schema{apiVersion: crd.Spec.Group + "/" + v.Name, kind: crd.Spec.Names.Kind, spec: &spec}, nil
	}
	return nil, fmt.Errorf("schema of %s: no storage version with a schema", crd.Name)
}

// Kind is the API's kind.
func (s *Schema) Kind() string { return s.kind }

// Normalize gives the form in which versions are compared: in the API's one
// version, without fields that the schema does not know, with its defaults.
// The argument is not changed.
func (s *Schema) Normalize(c *Claim) *Claim {
	out := c.clone()
	out.APIVersion = s.apiVersion
	if out.Spec == nil {
		out.Spec = map[string]any{}
	}
	pruning.Prune(out.Spec, s.spec, false)
	defaulting.PruneNonNullableNullsWithoutDefaults(out.Spec, s.spec)
	defaulting.Default(out.Spec, s.spec)
	out.Spec = canonical(runtime.DeepCopyJSON(out.Spec)).(map[string]any)
	return out
}
