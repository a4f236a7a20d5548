package drift_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/drift"
)

func brokers(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile("../export/testdata/brokers.live.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

// server is what keeps the fields of an object in an API server.
func server(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) managedfieldstest.TestFieldManager {
	t.Helper()
	_, structural, err := contract.VersionSchema(crd, "v1")
	if err != nil {
		t.Fatal(err)
	}
	texts, anything := *spec.MapProperty(spec.StringProperty()), spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"array"}, Items: &spec.SchemaOrArray{Schema: &spec.Schema{
		VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}},
	}}}}
	s := structural.ToKubeOpenAPI()
	s.Properties["metadata"] = spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
		"labels": texts, "annotations": texts, "name": *spec.StringProperty(), "namespace": *spec.StringProperty(), "managedFields": anything,
	}}}
	s.Properties["apiVersion"], s.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": "example.net", "version": "v1", "kind": "Broker"}})
	converter, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"net.example.v1.Broker": s}, false)
	if err != nil {
		t.Fatal(err)
	}
	return managedfieldstest.NewTestFieldManager(converter, schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Broker"})
}

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.Object = runtime.DeepCopyJSON(whole(u.Object).(map[string]any))
	u.SetAPIVersion("example.net/v1")
	u.SetKind("Broker")
	u.SetNamespace("gb-x-team-a")
	u.SetName("events")
	return u
}

// whole makes of numbers what an API server's decoder makes of them.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

const rich = `
metadata: {labels: {team: a, gitbind.dev/cluster: x}, annotations: {note: hi}}
spec:
  size: 3
  mode: fast
  port: http
  topics: [{name: a, partitions: 3, labels: {k: v}}, {name: b}]
  users: [ann, bob]
  order: [one, two]
  steps: [{run: a}]
  place: {zone: z, rack: r}
  settings: {a: b}
  nested: {first: {enabled: true, ratio: 0.5}, empty: {}}
  free: {anything: {goes: 1}, list: [{a: b}]}
`

func mark(t *testing.T, text string) (*drift.Fields, *unstructured.Unstructured) {
	t.Helper()
	f, err := drift.NewFields(brokers(t), "v1")
	if err != nil {
		t.Fatal(err)
	}
	u := object(t, text)
	if err := f.Mark(u); err != nil {
		t.Fatal(err)
	}
	return f, u
}

func TestDrift(t *testing.T) {
	tests := []struct {
		name   string
		change func(*unstructured.Unstructured)
		want   drift.Change
	}{
		{"nothing", func(*unstructured.Unstructured) {}, drift.Change{}},
		{"fields of others", func(u *unstructured.Unstructured) {
			set(u, "anna", "spec", "owner")
			set(u, "z", "spec", "settings", "z")
			set(u, "x", "metadata", "annotations", "crossplane.io/external-name")
			set(u, []any{"ann", "bob", "eve"}, "spec", "users")
		}, drift.Change{}},
		{"the status", func(u *unstructured.Unstructured) { set(u, true, "status", "ready") }, drift.Change{}},
		{"the same value again", func(u *unstructured.Unstructured) { set(u, "fast", "spec", "mode") }, drift.Change{}},
		{"a changed value", func(u *unstructured.Unstructured) { set(u, "safe", "spec", "mode") },
			drift.Change{Fields: []string{"spec.mode"}, Managers: []string{"admin"}}},
		{"a value taken away", func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "port") },
			drift.Change{Fields: []string{"spec.port"}}},
		{"a changed item of a list with keys", func(u *unstructured.Unstructured) {
			topics, _, _ := unstructured.NestedSlice(u.Object, "spec", "topics")
			topics[0].(map[string]any)["partitions"] = int64(9)
			set(u, topics, "spec", "topics")
		}, drift.Change{Fields: []string{`spec.topics[name="a"].partitions`}, Managers: []string{"admin"}}},
		{"an item taken away", func(u *unstructured.Unstructured) {
			topics, _, _ := unstructured.NestedSlice(u.Object, "spec", "topics")
			set(u, topics[:1], "spec", "topics")
			set(u, []any{"ann"}, "spec", "users")
		}, drift.Change{Fields: []string{`spec.topics[name="b"].name`, `spec.users[="bob"]`}}},
		{"a changed list as a whole", func(u *unstructured.Unstructured) { set(u, []any{"two", "one"}, "spec", "order") },
			drift.Change{Fields: []string{"spec.order"}, Managers: []string{"admin"}}},
		{"a label", func(u *unstructured.Unstructured) { set(u, "b", "metadata", "labels", "team") },
			drift.Change{Fields: []string{"metadata.labels.team"}, Managers: []string{"admin"}}},
		{"everything", func(u *unstructured.Unstructured) { delete(u.Object, "spec") }, drift.Change{Fields: []string{
			"spec.free.anything.goes", "spec.free.list", "spec.mode", "spec.nested.empty", "spec.nested.first.enabled", "spec.nested.first.ratio", "spec.order", "spec.place", "spec.port",
			"spec.settings.a", "spec.size", "spec.steps", `spec.topics[name="a"].labels.k`, `spec.topics[name="a"].name`, `spec.topics[name="a"].partitions`,
			`spec.topics[name="b"].name`, `spec.users[="ann"]`, `spec.users[="bob"]`,
		}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, wanted := mark(t, rich)
			s := server(t, brokers(t))
			if err := s.Apply(wanted.DeepCopy(), "gitbind", true); err != nil {
				t.Fatal(err)
			}
			live := s.Live().(*unstructured.Unstructured)
			if found := drift.Found(live); found != "" {
				t.Fatalf("just applied, and found %s:\n%v", found, live.GetManagedFields())
			}
			test.change(live)
			if err := s.Update(live, "admin"); err != nil {
				t.Fatal(err)
			}
			live = s.Live().(*unstructured.Unstructured)
			got, err := f.Changes(wanted, live)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got): %s", diff)
			}
			found := drift.Found(live)
			if (found != "") != (len(test.want.Fields) > 0) {
				t.Errorf("found %q", found)
			}
			data, err := json.Marshal(live.GetManagedFields())
			if err != nil {
				t.Fatal(err)
			}
			var entries []drift.Entry
			if err := json.Unmarshal(data, &entries); err != nil {
				t.Fatal(err)
			}
			if in := drift.FoundIn(entries, live.GetAnnotations()); in != found {
				t.Errorf("in its lists of fields: found %q, want %q", in, found)
			}
			slim := live.DeepCopy()
			drift.Slim(slim)
			if drift.Found(slim) != found || slim.GetManagedFields() != nil {
				t.Errorf("slimmed: found %q, want %q", drift.Found(slim), found)
			}
			// What is applied again is the bridge's again.
			if err := s.Apply(wanted.DeepCopy(), "gitbind", true); err != nil {
				t.Fatal(err)
			}
			if found := drift.Found(s.Live().(*unstructured.Unstructured)); found != "" {
				t.Errorf("applied again, and found %s", found)
			}
		})
	}
}

func set(u *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		panic(err)
	}
}

func TestAnObjectThatNobodyMarkedIsFound(t *testing.T) {
	s := server(t, brokers(t))
	if err := s.Apply(object(t, rich), "gitbind", true); err != nil {
		t.Fatal(err)
	}
	if drift.Found(s.Live().(*unstructured.Unstructured)) == "" {
		t.Error("an object without a mark passes")
	}
}

func BenchmarkMark(b *testing.B) {
	f, err := drift.NewFields(brokers(b), "v1")
	if err != nil {
		b.Fatal(err)
	}
	u := object(b, rich)
	for b.Loop() {
		if err := f.Mark(u); err != nil {
			b.Fatal(err)
		}
	}
}
