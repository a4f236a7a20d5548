package review

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// TestTheControlPlanesNoIsSeenBeforeTheMerge shows changes of an API as the bridge has
// published it.
func TestTheControlPlanesNoIsSeenBeforeTheMerge(t *testing.T) {
	const binding = "postgresqlinstances.anynines.com"
	export, err := os.ReadFile("../../../gitbridge/internal/export/testdata/" + binding[:len("postgresqlinstances")] + ".export.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies := func(texts ...string) client.Object {
		template := &v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: "offer"}}
		for _, text := range texts {
			raw, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			template.Spec.Policies = append(template.Spec.Policies, runtime.RawExtension{Raw: raw})
		}
		return template
	}
	frozen := policies(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: frozen}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [anynines.com], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]},
  validations: [{expression: "oldObject != null && object.spec.plan == oldObject.spec.plan", message: no other plan now}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: frozen}, spec: {policyName: frozen, validationActions: [Deny]}}`)
	key := contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}
	manifest := func(version, spec string) []byte {
		return []byte("apiVersion: anynines.com/" + version + "\nkind: PostgresqlInstance\nmetadata: {name: orders, namespace: team-a}\nspec: " + spec + "\n")
	}
	const nano, small = "{service: a9s-postgresql13, plan: postgresql-single-nano}", "{service: a9s-postgresql13, plan: postgresql-single-small}"
	for name, c := range map[string]struct {
		was, is  []byte
		template client.Object
		export   []byte
		want     string
		answer   contract.Result // on what was, "" for none
	}{
		"it is fine":                       {nil, manifest("v1", nano), policies(), export, "", ""},
		"a plan that is none":              {nil, manifest("v1", "{service: a9s-postgresql13, plan: huge}"), policies(), export, `spec.plan: Unsupported value: "huge"`, ""},
		"a field that is none":             {manifest("v1", nano), manifest("v1", "{service: a9s-postgresql13, plan: postgresql-single-nano, plane: x}"), policies(), export, "spec.plane is not a field of PostgresqlInstance", ""},
		"another version":                  {nil, manifest("v2", nano), policies(), export, "but the API is bound as anynines.com/v1", ""},
		"a policy is against it":           {manifest("v1", nano), manifest("v1", small), frozen, export, "ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: no other plan now", ""},
		"no policy is against what stays":  {manifest("v1", nano), append([]byte("# for the shop\n"), manifest("v1", nano)...), frozen, export, "", ""},
		"the template is gone":             {nil, manifest("v1", nano), &v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, export, "", ""},
		"nothing is published":             {nil, manifest("v1", "{plan: huge}"), policies(), nil, "", ""},
		"what is published cannot be read": {nil, manifest("v1", "{plan: huge}"), policies(), []byte("spec: ["), "", ""},
		"what was denied is taken back":    {manifest("v1", small), manifest("v1", nano), frozen, export, "", contract.Denied},
		"what was applied stays":           {manifest("v1", small), manifest("v1", nano), frozen, export, "no other plan now", contract.Applied},
		"another that is none":             {manifest("v1", small), manifest("v1", "{plan: huge}"), frozen, export, `spec.plan: Unsupported value: "huge"`, contract.Denied},
	} {
		w := newWorld()
		f := githost.FileChange{Path: key.Path(), After: "a", Is: c.is}
		if c.was != nil {
			f.Before, f.Was = "b", c.was
		}
		w.change.Files = []githost.FileChange{f}
		if w.files = map[string][]byte{}; c.export != nil {
			w.files[contract.ExportPath(binding)] = c.export
		}
		if c.answer != "" {
			w.answers(t, key.Path(), c.answer, "x/orders")
		}
		got, err := w.service(t, nil, c.template).Change(t.Context(), login.Identity{Username: "alice"}, cluster, "changes/x")
		if err != nil {
			t.Fatal(err)
		}
		if problem := got.Files[0].Problem; (problem == "") != (c.want == "") || !strings.Contains(problem, c.want) {
			t.Errorf("%s: %q, want %q", name, problem, c.want)
		}
	}
}
