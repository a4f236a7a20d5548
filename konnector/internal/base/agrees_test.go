package base

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestAgrees(t *testing.T) {
	spec := map[string]any{"plan": "small <1>", "ratio": 0.5, "nodes": int64(3), "list": []any{"b", "a"}}
	said, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(o *Object)
		base   Base
		want   bool
	}{
		{"the same", func(*Object) {}, Base{UID: "u1"}, true},
		{"what does not travel", func(o *Object) { o.Labels["crossplane.io/x"] = "y" }, Base{UID: "u1"}, true},
		{"a base without a UID, and the status names it", func(*Object) {}, Base{}, true},
		{"a base without a UID, and the status names another", func(o *Object) { o.StatusUID = "u0" }, Base{}, false},
		{"another object's base", func(*Object) {}, Base{UID: "u0"}, false},
		{"no UID at all", func(o *Object) { o.UID, o.StatusUID = "", "" }, Base{}, false},
		{"another kind", func(o *Object) { o.Kind = "Backup" }, Base{UID: "u1"}, false},
		{"another spec", func(o *Object) { o.Spec = []byte(`{"plan":"big"}`) }, Base{UID: "u1"}, false},
		{"no spec", func(o *Object) { o.Spec = nil }, Base{UID: "u1"}, false},
		{"a label more", func(o *Object) { o.Labels["more"] = "" }, Base{UID: "u1"}, false},
		{"a label less", func(o *Object) { delete(o.Labels, "team") }, Base{UID: "u1"}, false},
		{"another label", func(o *Object) { o.Labels["team"] = "b" }, Base{UID: "u1"}, false},
		{"an annotation more", func(o *Object) { o.Annotations["more"] = "" }, Base{UID: "u1"}, false},
		{"an annotation more that always travels", func(o *Object) { o.Annotations["app.kubernetes.io/x"] = "" }, Base{UID: "u1"}, false},
		{"an annotation more that travels by a list", func(o *Object) { o.Annotations["example.org/x"] = "" }, Base{UID: "u1"}, true},
		{"no base", func(o *Object) { delete(o.Annotations, v1alpha1.BaseAnnotation) }, Base{UID: "u1"}, false},
		{"an unreadable base", func(o *Object) { o.Annotations[v1alpha1.BaseAnnotation] = `{"uid":"u1","content":"?"}` }, Base{UID: "u1"}, false},
	} {
		tc.base.Claim = orders(spec)
		o := Object{
			Kind: "PostgresqlInstance", UID: types.UID("u1"), StatusUID: types.UID("u1"), Spec: said,
			Labels: map[string]string{"team": "a"}, Annotations: map[string]string{v1alpha1.BaseAnnotation: encode(t, &tc.base)},
		}
		tc.change(&o)
		if _, _, agrees := Agrees(o); agrees != tc.want {
			t.Errorf("%s: agrees: %t", tc.name, agrees)
		}
	}
}

func TestWhatNoListLetTravelIsBesideTheBase(t *testing.T) {
	o := Object{
		Kind: "PostgresqlInstance", UID: "u1", Spec: []byte(`{"plan":"small"}`),
		Labels: map[string]string{"team": "a", "example.org/tier": "gold"},
		Annotations: map[string]string{
			v1alpha1.BaseAnnotation:                            encode(t, &Base{UID: "u1", Claim: orders(map[string]any{"plan": "small"})}),
			"example.org/owner":                                "alice",
			"kubectl.kubernetes.io/last-applied-configuration": "{}",
		},
	}
	want := Unlisted{Labels: map[string]string{"example.org/tier": "gold"}, Annotations: map[string]string{"example.org/owner": "alice"}}
	_, beside, agrees := Agrees(o)
	if diff := cmp.Diff(want, beside); diff != "" || !agrees {
		t.Errorf("agrees: %t, beside it (-want +got): %s", agrees, diff)
	}
}
