package attribution_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
)

// The policy says in CEL what contract.MayTravel says in Go: anybody who changes one has
// to change the other.
func TestPolicyCountsWhatMayTravel(t *testing.T) {
	data, err := os.ReadFile("policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policy admissionv1.MutatingAdmissionPolicy
	if err := yaml.UnmarshalStrict(data, &policy); err != nil {
		t.Fatal(err)
	}
	var machinery *regexp.Regexp
	for _, v := range policy.Spec.Variables {
		if v.Name == "travelling" {
			quoted := regexp.MustCompile(`matches\('([^']*)'\)`).FindStringSubmatch(v.Expression)
			machinery = regexp.MustCompile(quoted[1])
		}
	}
	if machinery == nil {
		t.Fatal("the policy has no variable travelling")
	}
	travels := func(key string) bool {
		if strings.HasPrefix(key, "app.kubernetes.io/") {
			return key != "app.kubernetes.io/instance" && key != "app.kubernetes.io/managed-by"
		}
		return !machinery.MatchString(key)
	}
	domains := []string{
		"gitbind.dev", "kubernetes.io", "k8s.io", "crossplane.io", "helm.sh", "argoproj.io", "fluxcd.io",
		"cattle.io", "tilt.dev", "skaffold.dev", "velero.io", "example.com", "io", "anynines.com",
	}
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "app.", "kubectl.", "a.b.", "x", "x-"}).Draw(t, "prefix")
		slash := rapid.SampledFrom([]string{"/", "/", ".x/", ""}).Draw(t, "slash")
		name := rapid.SampledFrom([]string{"instance", "managed-by", "part-of", "a", ""}).Draw(t, "name")
		key := prefix + rapid.SampledFrom(domains).Draw(t, "domain") + slash + name
		if got, want := travels(key), contract.MayTravel(key); got != want {
			t.Fatalf("%s: the policy says %t, the contract %t", key, got, want)
		}
	})
}
