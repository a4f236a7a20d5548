package review

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// To compile them takes most of a review, and a cluster may have thousands of changes.
func TestPoliciesAndSchemasAreCompiledAgainOnlyWhenTheyAreOthers(t *testing.T) {
	const binding = "postgresqlinstances.anynines.com"
	export, err := os.ReadFile("../../../gitbridge/internal/export/testdata/postgresqlinstances.export.yaml")
	if err != nil {
		t.Fatal(err)
	}
	template := &v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: "offer"}}
	set := func(expression string) {
		template.Spec.Policies = []runtime.RawExtension{{Raw: []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{
  "matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]},"validations":[{"expression":"` + expression + `"}]}}`)},
			{Raw: []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)}}
	}
	set("true")
	w := newWorld()
	w.files = map[string][]byte{contract.ExportPath(binding): export}
	s := w.service(t, nil, template)
	control := s.Control.(client.Client)
	var last *api
	look := func(what, wantErr string, wantPolicies, wantSchema bool) {
		t.Helper()
		a, err := s.api(t.Context(), cluster, binding)
		if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("%s: %v", what, err)
		}
		if last != nil && (a.policies != last.policies) != wantPolicies || last != nil && (a.schema != last.schema) != wantSchema {
			t.Errorf("%s: the policies are others: %t, the schema is another: %t", what, a.policies != last.policies, a.schema != last.schema)
		}
		last = a
	}
	change := func(expression string) {
		t.Helper()
		if err := control.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil {
			t.Fatal(err)
		}
		set(expression)
		if err := control.Update(t.Context(), template); err != nil {
			t.Fatal(err)
		}
	}
	look("at first", "", true, true)
	look("once more", "", false, false)
	change("false")
	look("with other policies", "", true, false)
	change("nonsense(")
	look("with policies that cannot be used", "spec.validations", true, false)
	look("and once more", "spec.validations", false, false)
	change("false")
	w.files[contract.ExportPath(binding)] = append([]byte("# another\n"), export...)
	look("with another export", "", true, true)
	w.files[contract.ExportPath(binding)] = []byte("spec: [")
	if _, err := s.api(t.Context(), cluster, binding); err == nil {
		t.Error("an export that cannot be read is taken for one that was")
	}
}
