package schema_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/export"
	"gitbind.dev/gitbridge/schema"
)

func TestProblems(t *testing.T) {
	data, err := os.ReadFile("../internal/export/testdata/postgresqlinstances.live.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var live apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &live); err != nil {
		t.Fatal(err)
	}
	crd, err := export.CRD(&live, v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.New(crd)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		spec map[string]any
		want []schema.Problem
	}{
		{"a good claim", map[string]any{
			"service": "a9s-postgresql13", "plan": "postgresql-single-nano",
			"parameters":     map[string]any{"maxConnections": int64(120), "sharedBuffers": "1GB"},
			"compositionRef": map[string]any{"name": "a8s-postgresql"},
		}, nil},
		{"an unknown field", map[string]any{"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "pan": "x"}, []schema.Problem{
			{"spec.pan", "spec.pan is not a field of PostgresqlInstance"},
		}},
		{"another type", map[string]any{"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "parameters": map[string]any{"maxConnections": "many"}}, []schema.Problem{
			{"spec.parameters.maxConnections", `spec.parameters.maxConnections: Invalid value: "string": parameters.maxConnections in body must be of type integer: "string"`},
		}},
		{"a value that is not offered", map[string]any{"service": "a9s-postgresql13", "plan": "huge"}, []schema.Problem{
			{"spec.plan", `spec.plan: Unsupported value: "huge": supported values: "postgresql-single-nano", "postgresql-single-small", "postgresql-single-medium", "postgresql-single-big", "postgresql-replica-nano", "postgresql-replica-small", "postgresql-replica-medium", "postgresql-replica-big"`},
		}},
		{"nothing", nil, []schema.Problem{
			{"spec.plan", "spec.plan: Required value"},
			{"spec.service", "spec.service: Required value"},
		}},
		{"null is as good as absent", map[string]any{"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "expose": nil, "parameters": nil}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, s.Problems(&contract.Claim{Kind: "PostgresqlInstance", Spec: test.spec})); diff != "" {
				t.Errorf("(-want +got): %s", diff)
			}
		})
	}
}
