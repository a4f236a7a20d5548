package crossplane_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"gitbind.dev/gitbridge/internal/crossplane"
)

func TestShapeOf(t *testing.T) {
	for category, want := range map[string]crossplane.Shape{
		"claim": crossplane.Claim, "composite": crossplane.Composite, "managed": crossplane.Plain,
	} {
		var crd apiextensionsv1.CustomResourceDefinition
		crd.Spec.Names.Categories = []string{"other", category}
		if got := crossplane.ShapeOf(&crd); got != want {
			t.Errorf("category %s: shape %s, want %s", category, got, want)
		}
	}
}

func TestStrip(t *testing.T) {
	ref := map[string]any{"name": "x"}
	all := func() map[string]any {
		return map[string]any{
			"plan": "small", "compositionRef": ref, "crossplane": ref,
			"resourceRef": ref, "compositeDeletePolicy": "Background", "writeConnectionSecretToRef": ref,
			"compositionSelector": ref, "compositionRevisionRef": ref, "compositionRevisionSelector": ref,
			"compositionUpdatePolicy": "Manual", "publishConnectionDetailsTo": ref,
		}
	}
	tests := []struct {
		shape         crossplane.Shape
		kept, removed []string
	}{
		{crossplane.Claim, []string{"compositionRef", "crossplane", "plan", "writeConnectionSecretToRef"}, []string{
			"compositeDeletePolicy", "compositionRevisionRef", "compositionRevisionSelector", "compositionSelector",
			"compositionUpdatePolicy", "publishConnectionDetailsTo", "resourceRef",
		}},
		{crossplane.Composite, []string{
			"compositeDeletePolicy", "compositionRef", "compositionRevisionRef", "compositionRevisionSelector", "compositionSelector",
			"compositionUpdatePolicy", "plan", "publishConnectionDetailsTo", "resourceRef", "writeConnectionSecretToRef",
		}, []string{"crossplane"}},
		{crossplane.Plain, []string{
			"compositeDeletePolicy", "compositionRef", "compositionRevisionRef", "compositionRevisionSelector", "compositionSelector",
			"compositionUpdatePolicy", "crossplane", "plan", "publishConnectionDetailsTo", "resourceRef", "writeConnectionSecretToRef",
		}, nil},
	}
	for _, test := range tests {
		spec := all()
		if diff := cmp.Diff(test.removed, test.shape.Strip(spec)); diff != "" {
			t.Errorf("%s: removed (-want +got): %s", test.shape, diff)
		}
		for _, field := range test.kept {
			if _, ok := spec[field]; !ok {
				t.Errorf("%s: %s was removed", test.shape, field)
			}
		}
		if len(spec) != len(test.kept) {
			t.Errorf("%s: %d fields are left, want %d", test.shape, len(spec), len(test.kept))
		}
	}
}

func TestSteerKeepsAClaimUntilItsServiceIsGone(t *testing.T) {
	for shape, want := range map[crossplane.Shape]map[string]any{
		crossplane.Claim:     {"compositeDeletePolicy": "Foreground"},
		crossplane.Composite: {},
		crossplane.Plain:     {},
	} {
		spec := map[string]any{}
		shape.Steer(spec)
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Errorf("%s (-want +got): %s", shape, diff)
		}
	}
}

func TestSelectComposition(t *testing.T) {
	type object = map[string]any
	users, platforms := object{"name": "users"}, object{"name": "platforms"}
	for name, c := range map[string]struct {
		shape      crossplane.Shape
		spec, want object
	}{
		"a composite is made by what its user names": {
			crossplane.Composite, object{"compositionRef": users},
			object{"compositionRef": users, "crossplane": object{"compositionRef": users}},
		},
		"what the platform's template says stays": {
			crossplane.Composite, object{"compositionRef": users, "crossplane": object{"compositionRef": platforms}},
			object{"compositionRef": users, "crossplane": object{"compositionRef": platforms}},
		},
		"other machinery of the template stays": {
			crossplane.Composite, object{"compositionRef": users, "crossplane": object{"compositionUpdatePolicy": "Manual"}},
			object{"compositionRef": users, "crossplane": object{"compositionUpdatePolicy": "Manual", "compositionRef": users}},
		},
		"nobody names one": {crossplane.Composite, object{"plan": "small"}, object{"plan": "small"}},
		"the field is something else, of another API": {crossplane.Composite, object{"compositionRef": "users"}, object{"compositionRef": "users"}},
		"crossplane is something else":                {crossplane.Composite, object{"compositionRef": users, "crossplane": "x"}, object{"compositionRef": users, "crossplane": "x"}},
		"a claim's is Crossplane's own":               {crossplane.Claim, object{"compositionRef": users}, object{"compositionRef": users}},
		"another API's field is its own":              {crossplane.Plain, object{"compositionRef": users}, object{"compositionRef": users}},
	} {
		c.shape.SelectComposition(c.spec)
		if diff := cmp.Diff(c.want, c.spec); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
}

// Crossplane keeps on working on what may not be changed.
func TestAChangeFreezeIsOfNoMachinery(t *testing.T) {
	t.Parallel()
	policy, err := os.ReadFile("../../../policies/library/change-freeze/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range slices.Concat(crossplane.Claim.Machinery(), crossplane.Composite.Machinery()) {
		if !strings.Contains(string(policy), "'"+field+"'") {
			t.Errorf("change-freeze is also about %s", field)
		}
	}
}
