package compatibility_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"gitbind.dev/konnector/internal/agent/compatibility"
)

const before = `
names: {kind: PostgresqlInstance}
versions:
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      required: [spec]
      properties:
        spec:
          type: object
          required: [service]
          properties:
            service: {type: string}
            plan: {type: string, enum: [small, big]}
            count: {type: integer, minimum: 1, maximum: 9}
            labels: {type: object, additionalProperties: {type: string}}
            list: {type: array, items: {type: object, properties: {name: {type: string, maxLength: 9}}}}
            ports: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, port], items: {type: object}}
            free: {type: object, x-kubernetes-preserve-unknown-fields: true}
            port: {x-kubernetes-int-or-string: true}
            maybe: {type: string, nullable: true}
            size: {type: string, default: s}
        status: {type: object, properties: {phase: {type: string}}}
`

func TestBreaks(t *testing.T) {
	for _, c := range []struct {
		old, new string
		want     []string
	}{
		// What breaks nothing.
		{"", "", nil},
		{"service: {type: string}", "service: {type: string, description: x, default: a9s}", nil},
		{"service: {type: string}", "service: {type: string}\n            region: {type: string}", nil},
		{"enum: [small, big]", "enum: [small, big, huge]", nil},
		{"plan: {type: string, enum: [small, big]}", "plan: {type: string}", nil},
		{"count: {type: integer, minimum: 1, maximum: 9}", "count: {type: number, minimum: 0, maximum: 10}", nil},
		{"required: [service]", "required: []", nil},
		{"maxLength: 9", "maxLength: 10", nil},
		{"phase: {type: string}", "phase: {type: integer}", nil},
		{"required: [service]", "required: [service, region]\n          x-kubernetes-validations: []", []string{"spec.region is required"}},
		{"service: {type: string}", "service: {type: string}\n            region: {type: string, default: eu}", nil},
		{"service: {type: string}", "service: {type: string}\n            region: {type: object, required: [a], properties: {a: {type: string}}}", nil},
		{"service: {type: string}", "service: {type: string, title: Service}", nil},
		{"required: [service]", "required: [service]\n          x-kubernetes-preserve-unknown-fields: true", nil},
		{"status: {type: object, properties: {phase: {type: string}}}", "status: {type: object, x-kubernetes-preserve-unknown-fields: true}", nil},

		{"preserve-unknown-fields: true", "preserve-unknown-fields: true, properties: {size: {x-kubernetes-preserve-unknown-fields: true}}", nil},
		{"additionalProperties: {type: string}", "x-kubernetes-preserve-unknown-fields: true, properties: {team: {type: string}}", nil},
		{"keys: [name, port]", "keys: [protocol, port, name]", nil},
		{"        status:", "        metadata: {type: object, properties: {name: {type: string}}}\n        status:", nil},

		{"preserve-unknown-fields: true", "preserve-unknown-fields: true, properties: {size: {type: integer, default: 1}}", []string{"spec.free.size has the default 1, and had none", "spec.free.size is integer, and was anything"}},
		{"preserve-unknown-fields: true", "preserve-unknown-fields: true, properties: {size: {x-kubernetes-int-or-string: true}}", []string{"spec.free.size is integer or string, and was anything"}},
		{"preserve-unknown-fields: true", "preserve-unknown-fields: true, properties: {a: {x-kubernetes-preserve-unknown-fields: true, properties: {b: {type: string}}}}", []string{"spec.free.a.b is string, and was anything"}},
		{"additionalProperties: {type: string}", "x-kubernetes-preserve-unknown-fields: true, properties: {team: {type: string, maxLength: 3}}", []string{"spec.labels.team has at most 3 characters"}},
		{"keys: [name, port]", "keys: [name]", []string{"spec.ports has at most one item for each name"}},
		{"        status:", "        metadata: {type: object, properties: {name: {type: string, maxLength: 20}}}\n        status:", []string{"metadata.name has at most 20 characters"}},
		{"required: [spec]", "required: [spec]\n      not: {required: [status]}", []string{"the whole object has other conditions (not)"}},
		{"free: {type: object,", "free: {type: object, default: {}, ", []string{"spec.free has the default {}, and had none"}},
		{"size: {type: string, default: s}", "size: {type: string, default: l}", []string{`spec.size has the default "l", and had "s"`}},
		{"size: {type: string, default: s}", "size: {type: string}", nil},

		{"kind: PostgresqlInstance", "kind: Postgres", []string{"kind PostgresqlInstance becomes Postgres"}},
		{"name: v1", "name: v2", []string{"version v1 is no longer served"}},
		{"served: true", "served: false", []string{"version v1 is no longer served"}},
		{"            service: {type: string}\n", "", []string{"spec.service is removed"}},
		{"service: {type: string}", "service: {type: integer}", []string{"spec.service is integer, and was string"}},
		{"enum: [small, big]", "enum: [small]", []string{`spec.plan can no longer be "big"`}},
		{"service: {type: string}", "service: {type: string, enum: [a]}", []string{"spec.service can only be one of 1 values"}},
		{"service: {type: string}", "service: {type: string, pattern: '^a', minLength: 2}", []string{"spec.service has another pattern", "spec.service has at least 2 characters"}},
		{"minimum: 1, maximum: 9", "minimum: 2, maximum: 8", []string{"spec.count is at least 2", "spec.count is at most 8"}},
		{"required: [service]", "required: [service, plan]", []string{"spec.plan is required"}},
		{"maxLength: 9", "maxLength: 8", []string{"spec.list[].name has at most 8 characters"}},
		{"additionalProperties: {type: string}", "additionalProperties: {type: integer}", []string{"spec.labels.* is integer, and was string"}},
		{"labels: {type: object, additionalProperties: {type: string}}", "labels: {type: object}", []string{"spec.labels takes only the fields that it names"}},
		{"free: {type: object, x-kubernetes-preserve-unknown-fields: true}", "free: {type: object}", []string{"spec.free takes only the fields that it names"}},
		{"port: {x-kubernetes-int-or-string: true}", "port: {type: integer}", []string{"spec.port is integer, and was integer or string"}},
		{"nullable: true", "nullable: false", []string{"spec.maybe can no longer be null"}},
		{"required: [service]", "required: [service]\n          x-kubernetes-validations: [{rule: 'self.plan != \"big\"'}]", []string{`spec has the new rule self.plan != "big"`}},
		{"required: [spec]", "required: [spec]\n      x-kubernetes-validations: [{rule: 'true'}]", []string{"the whole object has the new rule true"}},
		{"service: {type: string}", "service: {type: string, anyOf: [{pattern: a}]}", []string{"spec.service has other conditions (anyOf)"}},
		{"nullable: true", "nullable: true, format: date", []string{"spec.maybe has another format"}},
		{"maximum: 9", "maximum: 9, multipleOf: 2", []string{"spec.count has another multipleOf"}},
		{"type: array", "type: array, uniqueItems: true", []string{"spec.list has another uniqueItems"}},
		{"type: array", "type: array, maxItems: 3", []string{"spec.list has at most 3 items"}},
		{"type: array", "type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name]", []string{"spec.list is a list of type map"}},
		{"additionalProperties: {type: string}", "additionalProperties: {type: string, maxLength: 3}", []string{"spec.labels.* has at most 3 characters"}},
		{"additionalProperties: {type: string}", "additionalProperties: {type: string}, maxProperties: 3", []string{"spec.labels has at most 3 fields"}},
	} {
		if !strings.Contains(before, c.old) {
			t.Fatalf("%q is not there", c.old)
		}
		got := compatibility.Breaks(parse(t, before), parse(t, strings.Replace(before, c.old, c.new, 1)))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s → %s: -want +got:\n%s", c.old, c.new, diff)
		}
	}
}

func TestTheHashNamesADefinition(t *testing.T) {
	a, b := parse(t, before), parse(t, strings.Replace(before, "big", "huge", 1))
	if h := compatibility.Hash(a); len(h) != 10 || h != compatibility.Hash(parse(t, before)) || h == compatibility.Hash(b) {
		t.Errorf("got %s and %s", h, compatibility.Hash(b))
	}
}

func parse(t *testing.T, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(text), &crd.Spec); err != nil {
		t.Fatal(err)
	}
	return crd
}
