package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestOnlyFieldsBesideThoseOfAClaimFileAreNotCarried(t *testing.T) {
	t.Parallel()
	with := func(name string, fields ...string) apiextensionsv1.CustomResourceDefinitionVersion {
		schema := &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for _, field := range fields {
			schema.Properties[field] = apiextensionsv1.JSONSchemaProps{}
		}
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}}
	}
	var crd apiextensionsv1.CustomResourceDefinition
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "none"}, {Name: "empty", Schema: &apiextensionsv1.CustomResourceValidation{}},
		with("usual", "apiVersion", "kind", "metadata", "spec", "status"), with("more", "type", "spec", "data", "stringData", "binaryData"),
	}
	for version, want := range map[string][]string{
		"none": nil, "empty": nil, "usual": nil, "more": {"binaryData", "data", "stringData", "type"}, "missing": nil,
	} {
		if diff := cmp.Diff(want, NotCarried(&crd, version)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", version, diff)
		}
	}
}

func TestASchemaWithKeysComparesThemToo(t *testing.T) {
	t.Parallel()
	plain, err := NewSchema(postgresql(t))
	if err != nil {
		t.Fatal(err)
	}
	keys := Keys{"example.com/"}
	listed := plain.WithKeys(keys)
	c := &Claim{Labels: map[string]string{"team": "a", "example.com/owner": "b", "acme.io/x": "c"}}
	for _, tc := range []struct {
		schema *Schema
		keys   Keys
		labels map[string]string
	}{
		{plain, nil, map[string]string{"team": "a"}},
		{listed, keys, map[string]string{"team": "a", "example.com/owner": "b"}},
	} {
		if diff := cmp.Diff(tc.keys, tc.schema.Keys()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff(tc.labels, tc.schema.Normalize(c).Labels); diff != "" {
			t.Errorf("with %v: -want +got:\n%s", tc.keys, diff)
		}
	}
}
