package transform_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/internal/transform"
)

func compile(t testing.TB, patches ...v1alpha1.Patch) *transform.Template {
	t.Helper()
	template, err := transform.Compile("offer", &v1alpha1.Transform{Patches: patches})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func everywhere(patch string) v1alpha1.Patch { return v1alpha1.Patch{Patch: patch} }

func where(selector, patch string) v1alpha1.Patch {
	return v1alpha1.Patch{Patch: patch, Target: &v1alpha1.PatchTarget{LabelSelector: selector}}
}

func TestTemplate(t *testing.T) {
	tests := []struct {
		name      string
		patches   []v1alpha1.Patch
		spec      map[string]any // without compositeDeletePolicy
		effective map[string]any
		overruled []string
	}{
		{"sets what only the platform may set", []v1alpha1.Patch{everywhere("spec:\n  compositionRef: {name: gold}\n  writeConnectionSecretToRef: {name: pg}\n")},
			map[string]any{
				"plan": "small", "backups": int64(7), "parameters": map[string]any{"maxConnections": int64(1 << 60), "ratio": 0.5, "tls": true, "extensions": []any{"a", "b"}},
				"compositionRef": map[string]any{"name": "gold"}, "writeConnectionSecretToRef": map[string]any{"name": "pg"},
			},
			map[string]any{"compositionRef": map[string]any{"name": "gold"}, "writeConnectionSecretToRef": map[string]any{"name": "pg"}}, nil},
		{"overrules, and takes away", []v1alpha1.Patch{
			everywhere("- {op: replace, path: /spec/plan, value: nano}\n- {op: remove, path: /spec/backups}\n"),
			everywhere("spec: {parameters: {maxConnections: 10, tls: null}}"),
		},
			map[string]any{"plan": "nano", "parameters": map[string]any{"maxConnections": int64(10), "ratio": 0.5, "extensions": []any{"a", "b"}}},
			map[string]any{"plan": "nano", "backups": nil, "parameters": map[string]any{"maxConnections": int64(10), "tls": nil}},
			[]string{"spec.backups", "spec.parameters.maxConnections", "spec.parameters.tls", "spec.plan"}},
		{"replaces a list as a whole", []v1alpha1.Patch{everywhere("spec: {parameters: {extensions: [c]}}")},
			map[string]any{"plan": "small", "backups": int64(7), "parameters": map[string]any{"maxConnections": int64(1 << 60), "ratio": 0.5, "tls": true, "extensions": []any{"c"}}},
			map[string]any{"parameters": map[string]any{"extensions": []any{"c"}}}, []string{"spec.parameters.extensions"}},
		{"chooses by label", []v1alpha1.Patch{
			where("team=a,gitbind.dev/cluster in (k3x9d2abqw)", "spec: {backups: 8}"), where("team=b", "spec: {backups: 9}"),
		},
			map[string]any{"plan": "small", "backups": int64(8), "parameters": map[string]any{"maxConnections": int64(1 << 60), "ratio": 0.5, "tls": true, "extensions": []any{"a", "b"}}},
			map[string]any{"backups": int64(8)}, []string{"spec.backups"}},
		{"what says the same is no difference", []v1alpha1.Patch{everywhere("spec: {plan: small}")},
			map[string]any{"plan": "small", "backups": int64(7), "parameters": map[string]any{"maxConnections": int64(1 << 60), "ratio": 0.5, "tls": true, "extensions": []any{"a", "b"}}},
			nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := transform.Object(withTemplate(compile(t, test.patches...)))
			if err != nil {
				t.Fatal(err)
			}
			test.spec["compositeDeletePolicy"] = "Foreground"
			if diff := cmp.Diff(test.spec, got.Object.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got): %s", diff)
			}
			if diff := cmp.Diff(test.effective, got.Effective); diff != "" {
				t.Errorf("effective (-want +got): %s", diff)
			}
			if diff := cmp.Diff(test.overruled, got.Overruled); diff != "" {
				t.Errorf("overruled (-want +got): %s", diff)
			}
		})
	}
}

func withTemplate(template *transform.Template) transform.Input {
	in := input()
	in.Template = template
	in.Claim.Spec = map[string]any{"plan": "small", "backups": int64(7), "parameters": map[string]any{
		"maxConnections": int64(1 << 60), "ratio": 0.5, "tls": true, "extensions": []any{"a", "b"},
	}}
	return in
}

func TestATemplateMaySetWhatAnAppClusterMayNot(t *testing.T) {
	got, err := transform.Object(withTemplate(compile(t, everywhere("metadata:\n  labels: {tier: gold, team: null}\n  annotations: {crossplane.io/paused: \"true\"}\n"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, kept := got.Object.GetLabels()["team"]; kept || got.Object.GetLabels()["tier"] != "gold" || got.Object.GetAnnotations()["crossplane.io/paused"] != "true" {
		t.Errorf("metadata %v", got.Object.Object["metadata"])
	}
}

func TestATemplateCannotBreakTheWayBack(t *testing.T) {
	for _, patch := range []string{
		"metadata: {labels: {gitbind.dev/cluster: other, gitbind.dev/namespace: team-b, gitbind.dev/name: null}, annotations: {gitbind.dev/applied: forged}}",
		"metadata: {labels: null, annotations: null}",
		"- {op: remove, path: /metadata/labels}\n- {op: remove, path: /metadata/annotations}",
	} {
		got, err := transform.Object(withTemplate(compile(t, everywhere(patch))))
		if err != nil {
			t.Fatal(err)
		}
		if l, a := got.Object.GetLabels(), got.Object.GetAnnotations(); l[tenant.ClusterLabel] != "k3x9d2abqw" || l[tenant.NamespaceLabel] != "team-a" || l[tenant.NameLabel] != "orders" || a[tenant.AppliedAnnotation] == "forged" || a[tenant.AppliedAnnotation] == "" {
			t.Errorf("%s: labels %v, annotations %v", patch, l, a)
		}
	}
}

func TestATemplateThatMakesAnotherObjectIsRefused(t *testing.T) {
	for _, patch := range []string{"kind: Secret", "apiVersion: anynines.com/v2", "apiVersion: v1"} {
		if _, err := transform.Object(withTemplate(compile(t, everywhere(patch)))); !errors.Is(err, transform.ErrAnother) {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

func TestTemplatesThatCannotBeUsed(t *testing.T) {
	for patch, want := range map[string]string{
		"spec: [":                          "is not valid YAML",
		"spec: {plan: a}\nspec: {plan: b}": "is not valid YAML",
		"hello":                            "is neither",
		"{}":                               "is empty",
		"spec: none":                       "no object",
		"metadata: {name: other}":          "sets metadata.name",
		"metadata: {namespace: other}":     "sets metadata.namespace",
		"metadata: {finalizers: [x]}":      "sets metadata.finalizers",
		"metadata: null":                   "sets metadata",
		"status: {ready: true}":            "sets status",
		"$patch: delete":                   "sets $patch",
		"[]":                               "has no operation",
		"[1]":                              "not of JSON patch operations",
		"- {op: fly, path: /spec/x}":       `"fly"`,
		"- {op: add, value: x}":            "has no path",
		"- {op: add, path: /metadata/name, value: x}":              "may change spec",
		"- {op: add, path: /status, value: {}}":                    "may change spec",
		"- {op: replace, path: /spec, value: {}}":                  "may change spec",
		"- {op: move, from: /metadata/name, path: /spec/x}":        "moves from",
		"- {op: add, path: /metadata/labelsx, value: {}}":          "may change spec",
		"- {op: replace, path: /spec/a/../../kind, value: Secret}": "",
	} {
		_, err := transform.Compile("offer", &v1alpha1.Transform{Patches: []v1alpha1.Patch{everywhere("spec: {a: b}"), everywhere(patch)}})
		var bad *transform.TemplateError
		if want == "" && err == nil {
			continue // A JSON pointer has no way up.
		}
		if !errors.As(err, &bad) || bad.Patch != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", patch, err, want)
		}
	}
	if _, err := transform.Compile("offer", &v1alpha1.Transform{Patches: []v1alpha1.Patch{where("=,", "spec: {a: b}")}}); err == nil || !strings.Contains(err.Error(), "labelSelector") {
		t.Errorf("a selector that cannot be read: %v", err)
	}
}

func TestAPatchThatDoesNotFitAClaimIsTheTemplates(t *testing.T) {
	for _, patch := range []string{
		"- {op: replace, path: /spec/missing/field, value: x}", "- {op: test, path: /spec/plan, value: large}", "spec: {$patch: delete}",
		"- {op: copy, from: /metadata, path: /metadata/labels}", "- {op: copy, from: /spec, path: /metadata/annotations}",
	} {
		_, err := transform.Object(withTemplate(compile(t, everywhere(patch))))
		var bad *transform.TemplateError
		if patch == "spec: {$patch: delete}" {
			// The spec may be emptied: what it then lacks, the schema says.
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

func TestRevision(t *testing.T) {
	if none, err := transform.Compile("offer", nil); none.Revision() != "" || err != nil {
		t.Error(none.Revision(), err)
	}
	a, again, b := compile(t, everywhere("spec: {a: b}")), compile(t, everywhere("spec: {a: b}")), compile(t, where("x=y", "spec: {a: b}"))
	if a.Revision() != again.Revision() || a.Revision() == b.Revision() {
		t.Error(a.Revision(), again.Revision(), b.Revision())
	}
}

// TestATemplateOnAnythingKeepsTheObject: whatever a patch says, what comes out
// is the claim's own object, or an error.
func TestATemplateOnAnythingKeepsTheObject(t *testing.T) {
	value := rapid.SampledFrom([]string{"x", "1", "null", "{}", "[]", "{a: 1}", "[{name: x}]", "\"1.0\"", "{$patch: replace}", "1e3"})
	path := rapid.SampledFrom([]string{"/spec/plan", "/spec/parameters", "/spec/a/b", "/metadata/labels", "/metadata/annotations", "/metadata/name", "/kind", "/metadata/labels/team", "/spec/parameters/extensions/-"})
	from := rapid.SampledFrom([]string{"/metadata", "/spec", "/kind", ""})
	rapid.Check(t, func(t *rapid.T) {
		var patches []v1alpha1.Patch
		for range rapid.IntRange(1, 3).Draw(t, "patches") {
			patches = append(patches, everywhere(rapid.SampledFrom([]string{
				"- {op: " + rapid.SampledFrom([]string{"add", "replace", "remove", "test"}).Draw(t, "op") + ", path: " + path.Draw(t, "path") + ", value: " + value.Draw(t, "value") + "}",
				"- {op: " + rapid.SampledFrom([]string{"copy", "move"}).Draw(t, "op2") + ", path: " + path.Draw(t, "path2") + ", from: " + from.Draw(t, "from") + "}",
				"metadata: {labels: " + value.Draw(t, "labels") + ", annotations: " + value.Draw(t, "annotations") + "}",
				"kind: " + value.Draw(t, "kind"),
				"spec: {plan: " + value.Draw(t, "plan") + ", parameters: " + value.Draw(t, "parameters") + "}",
			}).Draw(t, "patch")))
		}
		template, err := transform.Compile("offer", &v1alpha1.Transform{Patches: patches})
		if err != nil {
			return
		}
		got, err := transform.Object(withTemplate(template))
		if err != nil {
			return
		}
		u := got.Object
		if u.GetKind() != "PostgresqlInstance" || u.GetAPIVersion() != "anynines.com/v1" || u.GetNamespace() != "gb-k3x9d2abqw-team-a" || u.GetName() != "orders" || u.GetLabels()[tenant.NameLabel] != "orders" {
			t.Fatalf("%v makes %v", patches, u.Object)
		}
	})
}

func BenchmarkObject(b *testing.B) {
	for name, template := range map[string]*transform.Template{
		"plain": nil,
		"merge": compile(b, everywhere("spec:\n  compositionRef: {name: gold}\n  writeConnectionSecretToRef: {name: pg}\n")),
		"json":  compile(b, everywhere("- {op: replace, path: /spec/plan, value: nano}\n- {op: remove, path: /spec/backups}\n")),
	} {
		b.Run(name, func(b *testing.B) {
			in := withTemplate(template)
			for b.Loop() {
				if _, err := transform.Object(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestTemplateSelectsTheCompositionOfAComposite(t *testing.T) {
	for name, c := range map[string]struct{ patch, want string }{
		"what people write":               {"spec: {backups: 8}", "users"},
		"what the template writes for it": {"spec: {compositionRef: {name: frankfurt}}", "frankfurt"},
		"what the template says itself":   {"spec: {crossplane: {compositionRef: {name: frankfurt}}}", "frankfurt"},
	} {
		in := withTemplate(compile(t, everywhere(c.patch)))
		in.Shape = crossplane.Composite
		in.Claim.Spec = map[string]any{"plan": "small", "compositionRef": map[string]any{"name": "users"}}
		got, err := transform.Object(in)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"compositionRef": map[string]any{"name": c.want}}
		if diff := cmp.Diff(want, got.Object.Object["spec"].(map[string]any)["crossplane"]); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
}
