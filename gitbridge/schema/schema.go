// Package schema judges claims by the schema that app clusters were given,
// before an API server is asked: with the field at fault, which a server-side
// apply does not name when a field is unknown or of another type. Rules in CEL
// are left to the API server.
package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gitbind.dev/gitbridge/contract"
)

// Schema is that of the spec of one exported API. It may be used by many
// goroutines at once.
type Schema struct {
	spec      *structural.Structural
	validator validation.SchemaValidator
}

// New takes the schema of an exported definition, which has one version.
func New(crd *apiextensionsv1.CustomResourceDefinition) (*Schema, error) {
	props, s, err := contract.VersionSchema(crd, crd.Spec.Versions[0].Name)
	if err != nil {
		return nil, err
	}
	spec, properties := s.Properties["spec"], props.Properties["spec"]
	validator, _, err := validation.NewSchemaValidator(&properties)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", crd.Name, err)
	}
	return &Schema{spec: &spec, validator: validator}, nil
}

// Default fills in the defaults of an object's spec, as an API server does.
func (s *Schema) Default(u *unstructured.Unstructured) {
	if spec, ok := u.Object["spec"].(map[string]any); ok {
		s.defaultSpec(spec)
	}
}

func (s *Schema) defaultSpec(spec map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(spec, s.spec)
	defaulting.Default(spec, s.spec)
}

// Problem is what is wrong with one field, "spec.parameters.maxConnections".
type Problem struct {
	Field   string
	Message string
}

// Problems are what is wrong with a claim's spec, sorted by field.
func (s *Schema) Problems(c *contract.Claim) []Problem {
	spec := runtime.DeepCopyJSON(c.Spec)
	if spec == nil {
		spec = map[string]any{}
	}
	var out []Problem
	known := runtime.DeepCopyJSON(spec)
	for _, path := range pruning.PruneWithOptions(known, s.spec, false, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		path = "spec." + strings.TrimPrefix(path, ".")
		out = append(out, Problem{Field: path, Message: path + " is not a field of " + c.Kind})
	}
	s.defaultSpec(known)
	for _, err := range validation.ValidateCustomResource(field.NewPath("spec"), known, s.validator) {
		out = append(out, Problem{Field: err.Field, Message: err.Error()})
	}
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
	})
	return out
}
