package app_test

import (
	"encoding/json"
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// testBreaking changes the schema of an API in a way that its objects do not
// satisfy. What app clusters do about it is theirs to test.
func testBreaking(t *world, apis apis) {
	t.Run("D19_a breaking change of a schema leaves what is there and judges what is new", func(sub *testing.T) { testBreakingChange(t.with(sub), apis.gadgets) })
}

func testBreakingChange(w *world, gadgets v1alpha1.ExportedAPI) {
	t := w.tenant(gadgets)
	old, other, late, late2 := path(gadgets, "team-a", "old"), path(gadgets, "team-a", "other"), path(gadgets, "team-a", "late"), path(gadgets, "team-a", "late2")
	files := map[string]string{old: manifest(old, "  size: small"), other: manifest(other, "  size: small")}
	for _, name := range []string{"a", "b", "c"} {
		p := path(gadgets, "team-a", name)
		files[p] = manifest(p, "  size: small")
	}
	t.push("Order", files)
	for p := range files {
		t.wantAnswer(p, contract.Applied)
	}
	t.wantObserved()
	before, answered := t.object(old), t.answer(old)

	w.eventually("the schema is changed", func() error {
		var crd apiextensionsv1.CustomResourceDefinition
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: gadgets.BindingName()}, &crd))
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["size"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		spec.Properties["zone"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		spec.Required = []string{"zone"}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		return w.admin.Update(w.Context(), &crd)
	})
	t.eventually("app clusters are told of it", func() error {
		e, err := t.exported(gadgets)
		if err != nil {
			return err
		}
		var sent apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal(e.Status.CRD.Raw, &sent); err != nil {
			return err
		}
		if len(sent.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Required) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	t.push("Order in the old way", map[string]string{late: manifest(late, "  size: small")})
	if s := t.wantAnswer(late, contract.Invalid, "size"); s.Problem.File != late || s.Problem.Line == 0 {
		t.Errorf("%+v", s.Problem)
	}
	t.push("Order in the new way", map[string]string{late2: manifest(late2, "  size: 3\n  zone: a")})
	t.wantAnswer(late2, contract.Applied)
	t.wantObserved()
	// A bridge that begins now finds the same.
	t.restarted()
	if s := t.answer(old); s.Result != contract.Applied || s.Answers != answered.Answers {
		t.Errorf("what is there is answered with %+v", s)
	}
	if after := t.object(old); after == nil || after.GetUID() != before.GetUID() || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the object was %v and is %v", before, after)
	}
	// A service can be cancelled all the same.
	t.push("Cancel", map[string]string{other: ""})
	t.wantAnswer(other, contract.Gone)
}
