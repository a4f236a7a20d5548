package contract

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const binding = "postgresqlinstances.anynines.com"

var ordersKey = Key{Binding: binding, Namespace: "team-a", Name: "orders"}

// TestEncodeGolden: testdata/golden/<name>.in.yaml is an object as an API server
// gives it, <name>.yaml the file on main.
func TestEncodeGolden(t *testing.T) {
	inputs, _ := filepath.Glob("testdata/golden/*.in.yaml")
	if len(inputs) == 0 {
		t.Fatal("no golden inputs")
	}
	for _, in := range inputs {
		t.Run(filepath.Base(in), func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(read(t, in), &u.Object); err != nil {
				t.Fatal(err)
			}
			c := FromObject(u)
			got, err := Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(in, ".in.yaml") + ".yaml"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, golden)), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			key := Key{Binding: binding, Namespace: c.Namespace, Name: c.Name}
			back, err := Decode(File{Path: key.Path(), Mode: ModeRegular, Data: got}, c.Kind)
			if err != nil {
				t.Fatal(err)
			}
			if !Equal(c, back) {
				t.Errorf("decoded differs:\n%s", cmp.Diff(c, back))
			}
		})
	}
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &Claim{
			APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders",
			Labels:      rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), nasty(), 0, 3).Draw(t, "labels"),
			Annotations: rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), nasty(), 0, 3).Draw(t, "annotations"),
			Spec:        jsonObject(3).Draw(t, "spec"),
		}
		data, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(File{Path: ordersKey.Path(), Mode: ModeRegular, Data: data}, "PostgresqlInstance")
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		want.Spec = canonical(want.Spec).(map[string]any)
		if !Equal(want, got) {
			t.Fatalf("-want +got:\n%s\n%s", cmp.Diff(want, got), data)
		}
		again, _ := Encode(got)
		if string(again) != string(data) {
			t.Fatalf("equal claims, other bytes:\n%s\n%s", data, again)
		}
	})
}

// nasty draws strings that some YAML reader takes for something else.
func nasty() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String().Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s }),
		rapid.SampledFrom([]string{
			"", " ", "yes", "NO", "on", "y", "null", "~", "1", "1.0", "1e3", "0o17", "017", "0x1f", "1_000", "12:30:45",
			"2026-11-20", "2026-11-20T10:00:00Z", ".inf", ".NaN", "<<", "=", "- a", "a: b", "a #b", "#", "&a", "*a", "!t", "%",
			"@", "`", "'", "\"", "|", ">", "line\nline", "line\n", "\nline", " indented\nline", "trailing \nline", "tab\tx", "\r\n", "\u0085", "\u2028", "\ufeff", "---", "...", "\x00", "{", "[", "?",
		}),
	)
}

func jsonObject(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(nasty(), jsonValue(depth), 0, 4)
}

func jsonValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		nasty().AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Just[any](nil),
		rapid.Float64Range(-1e12, 1e12).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds, jsonObject(depth-1).AsAny(),
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(t, "list") }))
	}
	return rapid.OneOf(kinds...)
}

func TestToolsRecordsDoNotTravel(t *testing.T) {
	for key, want := range map[string]bool{
		"team": true, "example.com/owner": true, "app.kubernetes.io/name": true, "notgitbind.dev/x": true,
		"kubectl.kubernetes.io/last-applied-configuration": false, "gitbind.dev/base": false, "app.kubernetes.io/instance": false,
		"app.kubernetes.io/managed-by": false, "argocd.argoproj.io/tracking-id": false, "kustomize.toolkit.fluxcd.io/name": false,
		"crossplane.io/external-name": false, "crossplane.io/paused": false, "meta.helm.sh/release-name": false,
	} {
		if got := Travels(key); got != want {
			t.Errorf("Travels(%q) = %v", key, got)
		}
	}
}

func TestWriteToRemovesFieldsAndKeepsWhatDoesNotTravel(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"labels":      map[string]any{"old": "x"},
			"annotations": map[string]any{"gitbind.dev/base": "b", "note": "old"},
		},
		"spec": map[string]any{"plan": "small", "expose": "Internal"},
	}}
	c := &Claim{Labels: map[string]string{"new": "y"}, Spec: map[string]any{"plan": "big"}}
	c.WriteTo(u)
	want := map[string]any{
		"metadata": map[string]any{
			"labels":      map[string]any{"new": "y"},
			"annotations": map[string]any{"gitbind.dev/base": "b"},
		},
		"spec": map[string]any{"plan": "big"},
	}
	if diff := cmp.Diff(want, u.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNormalizedVersionsCompareBySchema(t *testing.T) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(read(t, "testdata/crd.yaml"), &crd); err != nil {
		t.Fatal(err)
	}
	schema, err := NewSchema(&crd)
	if err != nil {
		t.Fatal(err)
	}
	file := func(spec string) *Claim {
		t.Helper()
		c, err := Decode(File{Path: ordersKey.Path(), Data: []byte(
			"apiVersion: anynines.com/v1beta1\nkind: PostgresqlInstance\nmetadata: {name: orders, namespace: team-a}\nspec: " + spec + "\n")}, schema.Kind())
		if err != nil {
			t.Fatal(err)
		}
		return schema.Normalize(c)
	}
	base := file("{plan: small, expose: Internal}")
	for spec, equal := range map[string]bool{
		"{plan: small}":                                  true,
		"{expose: Internal, plan: small}":                true,
		"{plan: small, resourceRef: {name: stolen}}":     true,
		"{plan: big}":                                    false,
		"{plan: small, expose: LoadBalancer}":            false,
		"{plan: small, parameters: {maxConnections: 5}}": false,
	} {
		if got := Equal(base, file(spec)); got != equal {
			t.Errorf("%s: equal = %v, want %v", spec, got, equal)
		}
	}
	if got := base.APIVersion; got != "anynines.com/v1" {
		t.Errorf("apiVersion %q", got)
	}
	a, b := file("{plan: small, parameters: {maxConnections: 5}}"), file("{plan: small, parameters: {maxConnections: 5.0}}")
	if !Equal(a, b) {
		t.Errorf("5 and 5.0 differ: %s", cmp.Diff(a, b))
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
