package contract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"gitbind.dev/test/golden"
)

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
			golden.Compare(t, strings.TrimSuffix(in, ".in.yaml")+".yaml", got)
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
		rapid.Float64Range(-1e25, 1e25).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds, jsonObject(depth-1).AsAny(),
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(t, "list") }))
	}
	return rapid.OneOf(kinds...)
}

func TestToolsRecordsDoNotTravel(t *testing.T) {
	for key, want := range map[string]bool{
		"team": true, "example.com/owner": true, "policies.kyverno.io/x": true, "app.kubernetes.io/name": true, "notgitbind.dev/x": true,
		"kubectl.kubernetes.io/last-applied-configuration": false, "gitbind.dev/base": false, "app.kubernetes.io/instance": false,
		"app.kubernetes.io/managed-by": false, "argocd.argoproj.io/tracking-id": false, "kustomize.toolkit.fluxcd.io/name": false,
		"crossplane.io/external-name": false, "crossplane.io/paused": false, "meta.helm.sh/release-name": false,
	} {
		if got := MayTravel(key); got != want {
			t.Errorf("MayTravel(%q) = %v", key, got)
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
	c.WriteTo(u, nil)
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

func TestAClaimWithoutLabelsLeavesNoEmptyOnes(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	(&Claim{}).WriteTo(u, nil)
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{}}, u.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnObjectSaysAllThatItsClaimSays(t *testing.T) {
	c := &Claim{
		APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders",
		Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "n"}, Spec: map[string]any{"plan": "small"},
	}
	want := map[string]any{
		"apiVersion": "anynines.com/v1", "kind": "PostgresqlInstance",
		"metadata": map[string]any{
			"namespace": "team-a", "name": "orders",
			"labels": map[string]any{"team": "a"}, "annotations": map[string]any{"note": "n"},
		},
		"spec": map[string]any{"plan": "small"},
	}
	u := c.Object()
	if diff := cmp.Diff(want, u.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(c, FromObject(u)); diff != "" {
		t.Errorf("back from the object: -want +got:\n%s", diff)
	}
	u.Object["spec"].(map[string]any)["plan"] = "big"
	if c.Spec["plan"] != "small" {
		t.Error("the claim shares its spec with the object")
	}
}

func TestClaimsAreEqualWhenAllButTheVersionOfTheAPIIs(t *testing.T) {
	claim := func(change func(c *Claim)) *Claim {
		c := &Claim{
			APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders",
			Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "n"}, Spec: map[string]any{"plan": "small"},
		}
		change(c)
		return c
	}
	same := claim(func(*Claim) {})
	for _, tc := range []struct {
		name string
		a, b *Claim
		want bool
	}{
		{"the same", same, claim(func(*Claim) {}), true},
		{"another version of the API", same, claim(func(c *Claim) { c.APIVersion = "anynines.com/v2" }), true},
		{"another kind", same, claim(func(c *Claim) { c.Kind = "Backup" }), false},
		{"another namespace", same, claim(func(c *Claim) { c.Namespace = "team-b" }), false},
		{"another name", same, claim(func(c *Claim) { c.Name = "other" }), false},
		{"another label", same, claim(func(c *Claim) { c.Labels["team"] = "b" }), false},
		{"no labels", same, claim(func(c *Claim) { c.Labels = nil }), false},
		{"another annotation", same, claim(func(c *Claim) { c.Annotations["note"] = "m" }), false},
		{"another spec", same, claim(func(c *Claim) { c.Spec["plan"] = "big" }), false},
		{"no spec and an empty one", claim(func(c *Claim) { c.Spec = nil }), claim(func(c *Claim) { c.Spec = map[string]any{} }), true},
		{"none on either side", nil, nil, true},
		{"none on one side", same, nil, false},
	} {
		if got := Equal(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
		if got := Equal(tc.b, tc.a); got != tc.want {
			t.Errorf("%s, the other way round: %v", tc.name, got)
		}
	}
}

// TestEncodeLeavesOutWhatAClaimDoesNotSay: an empty spec is said, so that the file
// shows where it goes.
func TestEncodeLeavesOutWhatAClaimDoesNotSay(t *testing.T) {
	const want = "apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata:\n  name: orders\n  namespace: team-a\nspec: {}\n"
	for name, c := range map[string]Claim{
		"none":  {},
		"empty": {Labels: map[string]string{}, Annotations: map[string]string{}, Spec: map[string]any{}},
	} {
		c.APIVersion, c.Kind, c.Namespace, c.Name = "anynines.com/v1", "PostgresqlInstance", "team-a", "orders"
		got, err := Encode(&c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestTextIsABlockOnlyWhereItSurvivesAsOne: what a block scalar could lose is quoted.
func TestTextIsABlockOnlyWhereItSurvivesAsOne(t *testing.T) {
	for value, want := range map[string]string{
		"first line\nsecond~ line\n": "|\n    first line\n    second~ line\n",
		"first\nsecond":              "|-\n    first\n    second\n",
		"first\n\nthird":             `"first\n\nthird"` + "\n",
		"first\n\n":                  `"first\n\n"` + "\n",
		"\nsecond":                   `"\nsecond"` + "\n",
		" indented\nsecond":          `" indented\nsecond"` + "\n",
		"first \nsecond":             `"first \nsecond"` + "\n",
		"a\tb\nsecond":               `"a\tb\nsecond"` + "\n",
		"a\x7fb\nsecond":             `"a\x7Fb\nsecond"` + "\n",
		"plain":                      "plain\n",
		"blank at the end ":          `"blank at the end "` + "\n",
		"Yes":                        `"Yes"` + "\n",
		"1":                          `"1"` + "\n",
		"":                           `""` + "\n",
	} {
		data, err := Encode(&Claim{APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders", Spec: map[string]any{"a": value}})
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(string(data), "spec:\n  a: ")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", value, diff)
		}
		back, err := Decode(File{Path: ordersKey.Path(), Data: data}, "")
		if err != nil || back.Spec["a"] != value {
			t.Errorf("%q came back as %v, %v", value, back, err)
		}
	}
}

func TestNormalizedVersionsCompareBySchema(t *testing.T) {
	crd := postgresql(t)
	// A default that is the same number in other words.
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["size"] = apiextensionsv1.JSONSchemaProps{
		Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("5.0")},
	}
	schema, err := NewSchema(crd)
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
		"{plan: small, parameters: null}":                true,
		"{plan: small, expose: null}":                    true,
		"{plan: small, size: 5}":                         true,
		"{plan: small, size: 6}":                         false,
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

func TestNormalizeDoesNotChangeItsArgument(t *testing.T) {
	schema, err := NewSchema(postgresql(t))
	if err != nil {
		t.Fatal(err)
	}
	claim := func() *Claim {
		return &Claim{
			APIVersion: "anynines.com/v1beta1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders",
			Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "n"},
			Spec: map[string]any{"plan": "small", "unknown": "x", "parameters": map[string]any{"maxConnections": int64(5)}},
		}
	}
	c, want := claim(), claim()
	want.APIVersion = "anynines.com/v1"
	want.Spec = map[string]any{"plan": "small", "expose": "Internal", "parameters": map[string]any{"maxConnections": int64(5)}}
	got := schema.Normalize(c)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got.Labels["team"], got.Annotations["note"], got.Spec["plan"] = "b", "m", "big"
	got.Spec["parameters"].(map[string]any)["maxConnections"] = int64(6)
	if diff := cmp.Diff(claim(), c); diff != "" {
		t.Errorf("the argument is changed: -want +got:\n%s", diff)
	}
	if got := schema.Normalize(&Claim{}).Spec; !cmp.Equal(got, map[string]any{"expose": "Internal"}) {
		t.Errorf("without a spec: %v", got)
	}
}

func TestASchemaKnowsTheFieldsOfItsObjects(t *testing.T) {
	crd := postgresql(t)
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["extra"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: new(true),
	}
	schema, err := NewSchema(crd)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec map[string]any
		want bool
	}{
		"no spec":          {nil, true},
		"known":            {map[string]any{"plan": "small", "parameters": map[string]any{"maxConnections": int64(5)}}, true},
		"unknown":          {map[string]any{"plan": "small", "region": "eu"}, false},
		"unknown and null": {map[string]any{"region": nil}, false},
		"unknown below":    {map[string]any{"parameters": map[string]any{"region": "eu"}}, false},
		"any":              {map[string]any{"extra": map[string]any{"region": "eu"}}, true},
	} {
		if got := schema.Knows(&Claim{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheSchemaIsThatOfTheStorageVersion(t *testing.T) {
	other := func(name string, schema *apiextensionsv1.CustomResourceValidation) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Schema: schema}
	}
	crd := postgresql(t)
	storage := crd.Spec.Versions[0]
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		other("v1alpha1", nil),
		other("v1alpha2", &apiextensionsv1.CustomResourceValidation{}),
		other("v1beta1", &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}),
		storage,
	}
	schema, err := NewSchema(crd)
	if err != nil {
		t.Fatal(err)
	}
	if got := schema.Normalize(&Claim{}); got.APIVersion != "anynines.com/v1" || got.Spec["expose"] != "Internal" {
		t.Errorf("got %v", got)
	}
	for version, fields := range map[string]int{"v1alpha1": -1, "v1alpha2": -1, "v1beta1": 0, "v1": 1, "v2": -1} {
		props, s, err := VersionSchema(crd, version)
		switch {
		case (err != nil) != (fields < 0):
			t.Errorf("%s: error %v", version, err)
		case err == nil && (len(props.Properties) != fields || len(s.Properties) != fields):
			t.Errorf("%s: got %v, %v", version, props.Properties, s.Properties)
		}
	}
	crd.Spec.Versions[3].Schema = nil
	if _, err := NewSchema(crd); err == nil {
		t.Error("a storage version without a schema has one")
	}
	crd.Spec.Versions = crd.Spec.Versions[:3]
	if _, err := NewSchema(crd); err == nil {
		t.Error("an API without a storage version has a schema")
	}
}

func postgresql(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(read(t, "testdata/crd.yaml"), &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A default in a schema may be written 1e16, and an API server gives it as an integer.
func TestWholeNumbersAreOfOneTypeAtAnySize(t *testing.T) {
	for v, want := range map[float64]any{
		1 << 52: int64(1 << 52), 1 << 53: int64(1 << 53), -(1 << 53): int64(-(1 << 53)), 1e16: int64(1e16),
		-(1 << 63): int64(-(1 << 63)), 1 << 62: int64(1 << 62),
		1 << 63: float64(1 << 63), 1e20: 1e20, -1e20: -1e20, 0.5: 0.5,
	} {
		if got := canonical(v); got != want {
			t.Errorf("%v becomes %T %v, want %T %v", v, got, got, want, want)
		}
	}
}
