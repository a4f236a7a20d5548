package library_test

import (
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"gitbind.dev/policies/evaluator"
	"gitbind.dev/policies/policytest"
)

// files are a policy's, with its tests if that is asked for.
func files(t *testing.T, patterns ...string) (all []evaluator.File) {
	t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, evaluator.File{Name: name, Data: data})
		}
	}
	return all
}

func TestEachPolicyPassesItsTests(t *testing.T) {
	t.Parallel()
	suites, err := filepath.Glob("*/tests")
	if err != nil || len(suites) != 6 {
		t.Fatal(suites, err)
	}
	for _, tests := range suites {
		t.Run(filepath.Dir(tests), func(t *testing.T) {
			suite, err := policytest.Read(files(t, filepath.Join(filepath.Dir(tests), "*.yaml"), filepath.Join(tests, "*.yaml"))...)
			if err != nil {
				t.Fatal(err)
			}
			results, err := suite.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Problem != nil {
					t.Error(r.Problem)
				}
			}
		})
	}
}

// On a control plane the API group also has Crossplane's composites, which are not claims.
func TestEachPolicyIsAboutWhatIsInANamespace(t *testing.T) {
	t.Parallel()
	m, err := evaluator.Parse(files(t, "*/policy.yaml")...)
	if err != nil || len(m.Policies()) != 7 {
		t.Fatal(len(m.Policies()), err)
	}
	for _, p := range m.Policies() {
		for _, rule := range p.Spec.MatchConstraints.ResourceRules {
			if *rule.Scope != admissionv1.NamespacedScope {
				t.Errorf("%s: scope %s", p.Name, *rule.Scope)
			}
		}
	}
}
