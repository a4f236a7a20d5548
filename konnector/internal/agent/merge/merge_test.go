package merge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
)

// schema has one field of each shape.
const schema = `
type: object
properties:
  plan: {type: string}
  size: {type: integer}
  note: {type: string, nullable: true}
  parameters: {type: object, additionalProperties: {type: string}}
  backup: {type: object, properties: {hour: {type: integer}, keep: {type: integer}}}
  users:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {type: string}
        role: {type: string}
        grants: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  extensions: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  hosts: {type: array, items: {type: string}}
  ports:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [port, protocol]
    items: {type: object, required: [port, protocol], properties: {port: {type: integer}, protocol: {type: string}, name: {type: string}}}
  window: {type: object, x-kubernetes-map-type: atomic, properties: {from: {type: string}, to: {type: string}}}
  free: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func specSchema(t testing.TB) *structural.Structural {
	t.Helper()
	var props apiextensionsv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(schema), &props); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t testing.TB, text string) *contract.Claim {
	t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &spec, func(d *json.Decoder) *json.Decoder { return d }); err != nil {
		t.Fatal(err)
	}
	return of(spec)
}

func of(spec map[string]any) *contract.Claim {
	return &contract.Claim{APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders", Spec: whole(spec).value.(map[string]any)}
}

func TestClaims(t *testing.T) {
	s := specSchema(t)
	for _, tc := range []struct {
		name                     string
		base, cluster, git, want string
		conflicts                []string
	}{
		{name: "other fields", base: "{plan: a, size: 1}", cluster: "{plan: b, size: 1}", git: "{plan: a, size: 2}", want: "{plan: b, size: 2}"},
		{name: "the same change", base: "{plan: a}", cluster: "{plan: b}", git: "{plan: b}", want: "{plan: b}"},
		{name: "the same field", base: "{plan: a}", cluster: "{plan: b}", git: "{plan: c}", want: "{plan: c}", conflicts: []string{"spec.plan"}},
		{name: "one removes, one changes", base: "{plan: a, size: 1}", cluster: "{size: 1}", git: "{plan: b, size: 1}", want: "{plan: b, size: 1}", conflicts: []string{"spec.plan"}},
		{name: "one changes, one removes", base: "{plan: a, size: 1}", cluster: "{plan: b, size: 1}", git: "{size: 1}", want: "{size: 1}", conflicts: []string{"spec.plan"}},
		{name: "one removes, one changes another", base: "{plan: a, size: 1}", cluster: "{size: 1}", git: "{plan: a, size: 2}", want: "{size: 2}"},
		{name: "both remove", base: "{plan: a, size: 1}", cluster: "{size: 1}", git: "{}", want: "{}"},
		{name: "both add the same field", base: "{}", cluster: "{plan: a}", git: "{plan: b}", want: "{plan: b}", conflicts: []string{"spec.plan"}},
		{name: "null is a value", base: "{note: x, size: 1}", cluster: "{note: null, size: 1}", git: "{note: x, size: 2}", want: "{note: null, size: 2}"},
		{name: "null and removed differ", base: "{note: x}", cluster: "{note: null}", git: "{}", want: "{}", conflicts: []string{"spec.note"}},

		{name: "keys of one object", base: "{parameters: {a: '1'}}", cluster: "{parameters: {a: '2'}}", git: "{parameters: {a: '1', b: '1'}}", want: "{parameters: {a: '2', b: '1'}}"},
		{name: "both add an object", base: "{}", cluster: "{backup: {hour: 1}}", git: "{backup: {keep: 2}}", want: "{backup: {hour: 1, keep: 2}}"},
		{name: "an object removed and changed", base: "{backup: {hour: 1}}", cluster: "{}", git: "{backup: {hour: 2}}", want: "{backup: {hour: 2}}", conflicts: []string{"spec.backup"}},
		{name: "a key that needs quoting", base: "{parameters: {a.b/c: '1'}}", cluster: "{parameters: {a.b/c: '2'}}", git: "{parameters: {a.b/c: '3'}}", want: "{parameters: {a.b/c: '3'}}", conflicts: []string{"spec.parameters[a.b/c]"}},
		{name: "an atomic object", base: "{window: {from: a, to: b}}", cluster: "{window: {from: c, to: b}}", git: "{window: {from: a, to: d}}", want: "{window: {from: a, to: d}}", conflicts: []string{"spec.window"}},
		{name: "what the schema does not know", base: "{free: {a: {x: 1}, l: [1]}}", cluster: "{free: {a: {x: 2}, l: [1]}}", git: "{free: {a: {x: 1, y: 1}, l: [2]}}", want: "{free: {a: {x: 2, y: 1}, l: [2]}}"},
		{name: "an object becomes a text", base: "{free: {a: {x: 1}}}", cluster: "{free: {a: b}}", git: "{free: {a: {x: 2}}}", want: "{free: {a: {x: 2}}}", conflicts: []string{"spec.free.a"}},

		{name: "an empty list that the cluster adds", base: "{}", cluster: "{users: []}", git: "{}", want: "{users: []}"},
		{name: "an empty list that Git adds", base: "{}", cluster: "{}", git: "{users: []}", want: "{users: []}"},
		{name: "elements by key", base: "{users: [{name: a, role: r}, {name: b, role: r}]}", cluster: "{users: [{name: a, role: w}, {name: b, role: r}]}", git: "{users: [{name: b, role: r}, {name: c}]}", want: "{users: [{name: b, role: r}, {name: c}]}", conflicts: []string{`spec.users[name="a"]`}},
		{name: "fields of an element", base: "{users: [{name: a, role: r}]}", cluster: "{users: [{name: a, role: w}]}", git: "{users: [{name: a, role: r, grants: [x]}]}", want: "{users: [{name: a, role: w, grants: [x]}]}"},
		{name: "a set in an element", base: "{users: [{name: a, grants: [x]}]}", cluster: "{users: [{name: a, grants: [x, y]}]}", git: "{users: [{name: a, grants: [z, x]}]}", want: "{users: [{name: a, grants: [z, x, y]}]}"},
		{name: "one adds, one removes", base: "{users: [{name: a}, {name: b}]}", cluster: "{users: [{name: a}, {name: b}, {name: c}]}", git: "{users: [{name: b}]}", want: "{users: [{name: b}, {name: c}]}"},
		{name: "two keys", base: "{ports: [{port: 1, protocol: t}]}", cluster: "{ports: [{port: 1, protocol: t, name: x}]}", git: "{ports: [{port: 1, protocol: t}, {port: 1, protocol: u}]}", want: "{ports: [{port: 1, protocol: t, name: x}, {port: 1, protocol: u}]}"},
		{name: "both add the same element", base: "{users: []}", cluster: "{users: [{name: a, role: r}]}", git: "{users: [{name: a, role: w}]}", want: "{users: [{name: a, role: w}]}", conflicts: []string{`spec.users[name="a"].role`}},
		{name: "elements twice are no keys", base: "{users: [{name: a}]}", cluster: "{users: [{name: a}, {name: b}]}", git: "{users: [{name: c}, {name: c}]}", want: "{users: [{name: c}, {name: c}]}", conflicts: []string{"spec.users"}},
		{name: "a set", base: "{extensions: [a, b]}", cluster: "{extensions: [a, b, c]}", git: "{extensions: [b, d]}", want: "{extensions: [b, c, d]}"},
		{name: "a set that one empties", base: "{extensions: [a]}", cluster: "{extensions: [a, b]}", git: "{extensions: []}", want: "{extensions: [b]}"},
		{name: "an order that one changed", base: "{extensions: [a, b, c]}", cluster: "{extensions: [c, b, a]}", git: "{extensions: [a, b, c, d]}", want: "{extensions: [c, d, b, a]}"},
		{name: "an atomic list", base: "{hosts: [a]}", cluster: "{hosts: [a, b]}", git: "{hosts: [a, c]}", want: "{hosts: [a, c]}", conflicts: []string{"spec.hosts"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, conflicts := Claims(s, parse(t, tc.base), parse(t, tc.cluster), parse(t, tc.git))
			if diff := cmp.Diff(parse(t, tc.want), got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.conflicts, conflicts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLabelsAndAnnotations(t *testing.T) {
	with := func(labels, annotations map[string]string) *contract.Claim {
		c := of(nil)
		c.Labels, c.Annotations = labels, annotations
		return c
	}
	base := with(map[string]string{"team": "a", "old": "x"}, nil)
	got, conflicts := Claims(nil, base,
		with(map[string]string{"team": "b", "old": "x"}, map[string]string{"note": "n"}),
		with(map[string]string{"team": "a", "cost": "1"}, map[string]string{"note": "m"}))
	if diff := cmp.Diff(with(map[string]string{"team": "b", "cost": "1"}, map[string]string{"note": "m"}), got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"metadata.annotations.note"}, conflicts); diff != "" {
		t.Error(diff)
	}
}

func TestChanges(t *testing.T) {
	s := specSchema(t)
	from := parse(t, "{plan: a, size: 1, users: [{name: a, role: r}, {name: b}], extensions: [a], window: {from: a}}")
	to := parse(t, "{plan: b, users: [{name: a, role: w}], extensions: [a, b], window: {from: a, to: b}}")
	to.Labels = map[string]string{"team": "a"}
	want := []Change{
		{"metadata.labels.team", `"a"`},
		{`spec.extensions["b"]`, `"b"`},
		{"spec.plan", `"b"`},
		{"spec.size", ""},
		{`spec.users[name="a"].role`, `"w"`},
		{`spec.users[name="b"]`, ""},
		{"spec.window", `{"from":"a","to":"b"}`},
	}
	if diff := cmp.Diff(want, Changes(s, from, to)); diff != "" {
		t.Error(diff)
	}
	if got := Changes(s, from, from); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// A hostile file must not take more than time in proportion to its size.
func TestLongLists(t *testing.T) {
	list := func(prefix string) map[string]any {
		var l []any
		for i := range 50_000 {
			l = append(l, fmt.Sprint(prefix, i))
		}
		return map[string]any{"extensions": l}
	}
	got, conflicts := Claims(specSchema(t), of(nil), of(list("a")), of(list("b")))
	if len(conflicts) > 0 || len(got.Spec["extensions"].([]any)) != 100_000 {
		t.Errorf("conflicts %v, %v", conflicts, slices.Collect(maps.Keys(got.Spec)))
	}
}
