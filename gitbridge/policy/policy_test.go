package policy

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	good = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, validations: [{expression: "true"}]}}`
	binding = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: p}, spec: {policyName: p, validationActions: [Deny]}}`
)

func objects(t *testing.T, texts ...string) []runtime.RawExtension {
	t.Helper()
	var out []runtime.RawExtension
	for _, text := range texts {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, runtime.RawExtension{Raw: raw})
	}
	return out
}

func TestCompile(t *testing.T) {
	if set, err := Compile(nil); set != nil || err != nil {
		t.Errorf("of nothing: %v, %v", set, err)
	}
	if set, err := Compile(objects(t, good, binding)); err != nil || len(set.Policies()) != 1 {
		t.Errorf("%v, %v", set, err)
	}
	bad := strings.Replace(good, `"true"`, `"object.("`, 1)
	for words, texts := range map[string][]string{
		"Secret team-a/s cannot be a parameter":          {good, binding, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: team-a}}"},
		"there are 65 objects, the most is 64":           slices.Repeat([]string{good}, 65),
		"no ValidatingAdmissionPolicyBinding turns on p": {good},
		"turns on q": {strings.Replace(good, "name: p}", "name: q}", 1), binding},
		"spec.policies[0]: ValidatingAdmissionPolicy p: spec.validations": {bad, binding},
		"and 1 more": {bad, strings.Replace(bad, "name: p}", "name: q}", 1), strings.Replace(bad, "name: p}", "name: r}", 1), strings.Replace(bad, "name: p}", "name: s}", 1)},
	} {
		_, err := Compile(objects(t, texts...))
		if err == nil || !strings.Contains(Told(err), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
}

func TestRevision(t *testing.T) {
	one, two := Revision(objects(t, good, binding)), Revision(objects(t, binding, good))
	if Revision(nil) != "" || one == "" || one == two || one != Revision(objects(t, good, binding)) {
		t.Errorf("%q, %q", one, two)
	}
}
