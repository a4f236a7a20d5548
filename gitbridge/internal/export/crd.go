// Package export derives from the CRD of an API on the control plane the one
// that app clusters install. It is pure, and refuses what cannot travel: an API
// that is not namespaced, and a version that is not served.
package export

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/crossplane"
)

// Category is the one category of exported kinds: `kubectl get gitbind` lists
// them all.
const Category = "gitbind"

// CRD is the definition of an API for app clusters: the one exported version,
// without conversion and without the fields that steer Crossplane, and with the
// field status.gitbind, in which the konnector keeps what it has to say.
func CRD(live *apiextensionsv1.CustomResourceDefinition, api v1alpha1.ExportedAPI) (*apiextensionsv1.CustomResourceDefinition, error) {
	if live.Spec.Scope != apiextensionsv1.NamespaceScoped {
		return nil, fmt.Errorf("%s is not namespaced: only namespaced APIs can be bound", live.Name)
	}
	served := version(live, api.Version)
	if served == nil {
		return nil, fmt.Errorf("%s does not serve version %s", live.Name, api.Version)
	}
	if served.Schema == nil || served.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("%s has no schema in version %s", live.Name, api.Version)
	}
	if beside := contract.NotCarried(live, api.Version); len(beside) > 0 {
		return nil, fmt.Errorf("%s has fields beside spec and status, which would not reach the control plane: %s", live.Name, strings.Join(beside, ", "))
	}
	schema := served.Schema.OpenAPIV3Schema.DeepCopy()
	machinery := crossplane.ShapeOf(live).Machinery()
	withoutFields(schema, "spec", machinery)
	if err := withGitbindStatus(schema); err != nil {
		return nil, fmt.Errorf("%s: %w", live.Name, err)
	}
	schema.XValidations = rulesWithout(schema.XValidations, `(self|oldSelf)`, []string{"status"})
	names := live.Spec.Names.DeepCopy()
	names.Categories = []string{Category}
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: live.Name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: live.Spec.Group,
			Names: *names,
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name:               served.Name,
				Served:             true,
				Storage:            true,
				Deprecated:         served.Deprecated,
				DeprecationWarning: served.DeprecationWarning,
				Schema:             &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
				// The status, which the konnector writes, and no scale: a change by that way
				// is one of a claim that no policy can put a name to.
				Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: columns(served.AdditionalPrinterColumns),
				SelectableFields:         selectable(served.SelectableFields, machinery),
			}},
		},
	}, nil
}

// Versions are those of which a claim can be taken as one of the exported version, as an API
// server takes it: without conversion it changes nothing but the name of the version, and
// checks the fields by the schema of the new one. What a webhook would convert is not known.
func Versions(live *apiextensionsv1.CustomResourceDefinition, api v1alpha1.ExportedAPI) []string {
	if c := live.Spec.Conversion; c != nil && c.Strategy != apiextensionsv1.NoneConverter {
		return []string{api.Version}
	}
	var names []string
	for _, v := range live.Spec.Versions {
		names = append(names, v.Name)
	}
	return names
}

func version(crd *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i, v := range crd.Spec.Versions {
		if v.Name == name && v.Served {
			return &crd.Spec.Versions[i]
		}
	}
	return nil
}

// selectable are the fields by which objects can be selected, without those that
// app clusters do not have.
func selectable(live []apiextensionsv1.SelectableField, machinery []string) []apiextensionsv1.SelectableField {
	return slices.DeleteFunc(slices.Clone(live), func(f apiextensionsv1.SelectableField) bool {
		return slices.ContainsFunc(machinery, func(field string) bool {
			return f.JSONPath == ".spec."+field || strings.HasPrefix(f.JSONPath, ".spec."+field+".")
		})
	})
}

// withoutFields takes fields out of the object schema at a property, and the
// rules that speak of them: an API server refuses a schema with a rule on a
// field that it does not have.
func withoutFields(schema *apiextensionsv1.JSONSchemaProps, property string, fields []string) {
	object, ok := schema.Properties[property]
	if !ok || len(fields) == 0 {
		return
	}
	for _, field := range fields {
		delete(object.Properties, field)
	}
	object.Required = slices.DeleteFunc(object.Required, func(name string) bool { return slices.Contains(fields, name) })
	object.XValidations = rulesWithout(object.XValidations, `(self|oldSelf)`, fields)
	schema.Properties[property] = object
	schema.XValidations = rulesWithout(schema.XValidations, `(self|oldSelf)\.`+property, fields)
}

func rulesWithout(rules apiextensionsv1.ValidationRules, object string, fields []string) apiextensionsv1.ValidationRules {
	return slices.DeleteFunc(rules, func(rule apiextensionsv1.ValidationRule) bool {
		return slices.ContainsFunc(fields, func(field string) bool {
			mentions := regexp.MustCompile(`\b` + object + `\.\??` + regexp.QuoteMeta(field) + `\b`)
			return mentions.MatchString(rule.Rule) || mentions.MatchString(rule.MessageExpression)
		})
	})
}
