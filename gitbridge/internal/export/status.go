package export

import (
	"errors"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// withGitbindStatus adds the field status.gitbind. It is the konnector's: what
// the provider says stays beside it as it is.
func withGitbindStatus(schema *apiextensionsv1.JSONSchemaProps) error {
	status, ok := schema.Properties["status"]
	switch {
	case !ok:
		status = apiextensionsv1.JSONSchemaProps{Type: "object"}
	case status.Type != "object":
		return errors.New("its status is no object")
	}
	if _, taken := status.Properties["gitbind"]; taken {
		return errors.New("its status has a field named gitbind already")
	}
	if status.Properties == nil {
		status.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	// An app cluster's status is written before the provider's is known, and that of a service
	// that was made again. What judges a provider's status has done so on the control plane.
	withoutRules(&status)
	status.Required, status.MinProperties, status.MaxProperties = nil, nil, nil
	status.AllOf, status.AnyOf, status.OneOf, status.Not = nil, nil, nil, nil
	status.Properties["gitbind"] = gitbindStatus()
	if schema.Properties == nil {
		schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	schema.Properties["status"] = status
	return nil
}

// withoutRules takes the rules out of a schema and out of all below it.
func withoutRules(s *apiextensionsv1.JSONSchemaProps) {
	s.XValidations = nil
	for name, field := range s.Properties {
		withoutRules(&field)
		s.Properties[name] = field
	}
	if s.Items != nil && s.Items.Schema != nil {
		withoutRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		withoutRules(s.AdditionalProperties.Schema)
	}
}

func gitbindStatus() apiextensionsv1.JSONSchemaProps {
	text := func(description string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", Description: description}
	}
	return apiextensionsv1.JSONSchemaProps{
		Type:        "object",
		Description: "How far this claim has come on its way through Git. Written by the konnector.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"commit":  text("The commit of main that holds this claim as it is now."),
			"message": text("What is going on, in one line; empty when all is well."),
			"conditions": {
				Type:         "array",
				XListType:    ptr("map"),
				XListMapKeys: []string{"type"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type:     "object",
					Required: []string{"type", "status"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"type":    text("Committed, Applied, Ready, Secrets, Conflict, Held or AwaitingReview."),
						"status":  {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"True"`)}, {Raw: []byte(`"False"`)}, {Raw: []byte(`"Unknown"`)}}},
						"reason":  text("One word for programs."),
						"message": text("A sentence for people."),
						"observedGeneration": {Type: "integer", Format: "int64",
							Description: "The generation of this claim that the condition is about."},
					},
				}},
			},
		},
	}
}

// columns are what `kubectl get` shows: the operator's own columns without
// those that Crossplane adds, then whether the service can be used, and if not
// why.
func columns(live []apiextensionsv1.CustomResourceColumnDefinition) []apiextensionsv1.CustomResourceColumnDefinition {
	condition := func(t string) string { return `.status.gitbind.conditions[?(@.type=="` + t + `")].status` }
	ours := []apiextensionsv1.CustomResourceColumnDefinition{
		{Name: "Ready", Type: "string", JSONPath: condition("Ready"),
			Description: "Whether the service can be used."},
		{Name: "Applied", Type: "string", JSONPath: condition("Applied"),
			Description: "Whether the control plane has what the claim says."},
		{Name: "Message", Type: "string", JSONPath: ".status.gitbind.message"},
		{Name: "Commit", Type: "string", JSONPath: ".status.gitbind.commit", Priority: 1},
		{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
	}
	taken := func(c apiextensionsv1.CustomResourceColumnDefinition) bool {
		return crossplaneColumns[c.JSONPath] || slices.ContainsFunc(ours, func(o apiextensionsv1.CustomResourceColumnDefinition) bool {
			return strings.EqualFold(o.Name, c.Name)
		})
	}
	return append(slices.DeleteFunc(slices.Clone(live), taken), ours...)
}

var crossplaneColumns = map[string]bool{
	`.status.conditions[?(@.type=='Synced')].status`: true,
	`.status.conditions[?(@.type=='Ready')].status`:  true,
	`.spec.writeConnectionSecretToRef.name`:          true,
	`.spec.compositionRef.name`:                      true,
	`.spec.compositionRevisionRef.name`:              true,
	`.spec.crossplane.compositionRef.name`:           true,
	`.spec.crossplane.compositionRevisionRef.name`:   true,
	`.metadata.creationTimestamp`:                    true,
}

func ptr[T any](v T) *T { return &v }
