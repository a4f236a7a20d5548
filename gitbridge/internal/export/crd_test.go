package export_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/export"
	"gitbind.dev/test/golden"
)

func TestCRD(t *testing.T) {
	tests := []struct {
		name string
		api  v1alpha1.ExportedAPI
	}{
		{"postgresqlinstances", v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}},
		{"namespacedxr", v1alpha1.ExportedAPI{Group: "example.org", Version: "v1", Resource: "caches"}},
		{"brokers", v1alpha1.ExportedAPI{Group: "example.net", Version: "v1", Resource: "brokers"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			live := load(t, test.name+".live.yaml")
			before := live.DeepCopy()
			got, err := export.CRD(live, test.api)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, live); diff != "" {
				t.Errorf("the live definition was changed: %s", diff)
			}
			data := file(t, test.api, got)
			golden.Compare(t, filepath.Join("testdata", test.name+".export.yaml"), data)
			again, err := export.CRD(live, test.api)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data, file(t, test.api, again)) {
				t.Error("a second export differs")
			}
		})
	}
}

// What asks for reviews is not left out because this bridge does not know it.
func TestAnExportSaysWhetherChangesAreReviewed(t *testing.T) {
	for changes, want := range map[v1alpha1.Changes]bool{"": false, v1alpha1.ChangesDirect: false, v1alpha1.ChangesPullRequest: true, "TwoPersons": true} {
		data, err := export.File(&v1alpha1.APIServiceExport{}, export.Published{Changes: changes})
		if err != nil || strings.Contains(string(data), "changes: "+string(changes)+"\n") != want {
			t.Errorf("%q: %s, %v", changes, data, err)
		}
	}
}

func TestMachineryIsNotRequired(t *testing.T) {
	live := load(t, "postgresqlinstances.live.yaml")
	schema := live.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := schema.Properties["spec"]
	spec.Required = append(spec.Required, "resourceRef")
	schema.Properties["spec"] = spec
	got, err := export.CRD(live, v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"service", "plan"}, got.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Required); diff != "" {
		t.Errorf("required (-want +got): %s", diff)
	}
}

// The konnector writes a status before the provider's is known, and that of a service that was
// made again: what judges a status has judged it on the control plane.
func TestNothingJudgesAStatusThatTravels(t *testing.T) {
	live := load(t, "postgresqlinstances.live.yaml")
	root := live.Spec.Versions[0].Schema.OpenAPIV3Schema
	var status apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(`
type: object
required: [id]
minProperties: 2
maxProperties: 3
allOf: [{required: [id]}]
anyOf: [{required: [id]}]
oneOf: [{required: [id]}]
not: {required: [error]}
x-kubernetes-validations: [{rule: has(self.id)}]
properties:
  id: {type: string, maxLength: 9, x-kubernetes-validations: [{rule: self == oldSelf}]}
  nodes:
    type: array
    items: {type: object, properties: {name: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}}}
  zones: {type: object, additionalProperties: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}}
`), &status); err != nil {
		t.Fatal(err)
	}
	root.Properties["status"] = status
	root.XValidations = apiextensionsv1.ValidationRules{{Rule: "!has(self.status) || has(self.status.id)"}, {Rule: "has(self.spec)"}}
	want, err := yaml.YAMLToJSON([]byte(`
type: object
properties:
  id: {type: string, maxLength: 9}
  nodes: {type: array, items: {type: object, properties: {name: {type: string}}}}
  zones: {type: object, additionalProperties: {type: string}}
`))
	if err != nil {
		t.Fatal(err)
	}
	crd, err := export.CRD(live, v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"})
	if err != nil {
		t.Fatal(err)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	if rules := schema.XValidations; len(rules) != 1 || rules[0].Rule != "has(self.spec)" {
		t.Errorf("rules on the whole object: %v", rules)
	}
	travels := schema.Properties["status"]
	delete(travels.Properties, "gitbind")
	got, err := yaml.Marshal(travels)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = yaml.YAMLToJSON(got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestCRDRefuses(t *testing.T) {
	postgresql := v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}
	tests := []struct {
		name   string
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   string
	}{
		{"an API that is not namespaced", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Scope = apiextensionsv1.ClusterScoped
		}, "is not namespaced"},
		{"a version that is not there", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Name = "v2"
		}, "does not serve version v1"},
		{"a version that is not served", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Served = false
		}, "does not serve version v1"},
		{"an API without a schema", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema = nil
		}, "has no schema"},
		{"an API with fields beside spec and status", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["data"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}, "would not reach the control plane: data"},
		{"an API whose status has our field", func(crd *apiextensionsv1.CustomResourceDefinition) {
			status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
			status.Properties["gitbind"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}, "has a field named gitbind already"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			live := load(t, "postgresqlinstances.live.yaml")
			test.change(live)
			if _, err := export.CRD(live, postgresql); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func load(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

func file(t *testing.T, api v1alpha1.ExportedAPI, crd *apiextensionsv1.CustomResourceDefinition) []byte {
	t.Helper()
	snapshot, err := export.Snapshot(crd)
	if err != nil {
		t.Fatal(err)
	}
	e := &v1alpha1.APIServiceExport{Spec: v1alpha1.APIServiceExportSpec{Template: "offer", API: api}}
	e.Name, e.Namespace = api.BindingName(), "gb-k3x9d2abqw"
	data, err := export.File(e, export.Published{CRD: snapshot})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOnlyVersionsThatNobodyConvertsAreTakenForAnother(t *testing.T) {
	live := load(t, "postgresqlinstances.live.yaml")
	old := *live.Spec.Versions[0].DeepCopy()
	old.Name, old.Served = "v1beta1", false
	live.Spec.Versions = append(live.Spec.Versions, old)
	api := v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}
	for strategy, want := range map[apiextensionsv1.ConversionStrategyType][]string{
		apiextensionsv1.NoneConverter:    {"v1", "v1beta1"},
		apiextensionsv1.WebhookConverter: {"v1"},
	} {
		live.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: strategy}
		if diff := cmp.Diff(want, export.Versions(live, api)); diff != "" {
			t.Errorf("%s (-want +got): %s", strategy, diff)
		}
	}
}

// An app cluster gets the one version that its export names, as its only one,
// whichever the control plane stores.
func TestC8_OneOfTwoVersionsTravels(t *testing.T) {
	live := load(t, "postgresqlinstances.live.yaml")
	second := *live.Spec.Versions[0].DeepCopy()
	live.Spec.Versions[0].Storage = false
	second.Name, second.Storage = "v2", true
	second.Schema.OpenAPIV3Schema.Properties["spec"].Properties["region"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	live.Spec.Versions = append(live.Spec.Versions, second)
	live.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	for version, hasRegion := range map[string]bool{"v1": false, "v2": true} {
		got, err := export.CRD(live, v1alpha1.ExportedAPI{Group: "anynines.com", Version: version, Resource: "postgresqlinstances"})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got.Spec.Versions); n != 1 {
			t.Fatalf("%s: it has %d versions", version, n)
		}
		v := got.Spec.Versions[0]
		_, ok := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["region"]
		if v.Name != version || !v.Served || !v.Storage || ok != hasRegion || got.Spec.Conversion != nil {
			t.Errorf("%s: got %s, served %v, stored %v, region %v, conversion %v", version, v.Name, v.Served, v.Storage, ok, got.Spec.Conversion)
		}
	}
}
