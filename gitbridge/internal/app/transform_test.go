package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// patch sets the patches of an API's template.
func (w *world) patch(api v1alpha1.ExportedAPI, patches ...string) {
	w.Helper()
	w.eventually("the patches are set", func() error {
		var t v1alpha1.APIServiceExportTemplate
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &t))
		t.Spec.Transform = nil
		if len(patches) > 0 {
			t.Spec.Transform = &v1alpha1.Transform{}
		}
		for _, p := range patches {
			t.Spec.Transform.Patches = append(t.Spec.Transform.Patches, v1alpha1.Patch{Patch: p})
		}
		return w.admin.Update(w.Context(), &t)
	})
}

// wantTransform waits for the condition TransformValid, nil for none.
func (w *world) wantTransform(api v1alpha1.ExportedAPI, status metav1.ConditionStatus, words string) {
	w.Helper()
	w.eventually("TransformValid is "+string(status), func() error {
		var t v1alpha1.APIServiceExportTemplate
		if err := w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &t); err != nil {
			return err
		}
		c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionTransformValid)
		switch {
		case c == nil && status == "":
			return nil
		case c == nil || c.Status != status || c.ObservedGeneration != t.Generation || !strings.Contains(c.Message, words):
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// TestATemplateChangesClaims: its patches reach the object, the answer shows
// them, and a change of the template reaches what was applied before.
func TestATemplateChangesClaims(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.startBridge()
	t := w.tenant(api)
	orders, sales := path(api, "team-a", "orders"), path(api, "team-a", "sales")
	t.push("Order", map[string]string{orders: manifest(orders, nano+"\n  parameters: {maxConnections: 100, sharedBuffers: 1GB}")})
	t.wantAnswer(orders, contract.Applied)

	w.patch(api, "metadata: {labels: {tier: gold}}\nspec:\n  writeConnectionSecretToRef: {name: pg}\n  parameters: {sharedBuffers: 2GB}\n",
		"- {op: add, path: /spec/parameters/maxConnections, value: 50}\n")
	w.wantTransform(api, metav1.ConditionTrue, "")
	u := t.wantObject(orders, "spec.parameters.sharedBuffers", "2GB")
	if name, _, _ := unstructured.NestedString(u.Object, "spec", "writeConnectionSecretToRef", "name"); name != "pg" || u.GetLabels()["tier"] != "gold" {
		w.Errorf("the object has labels %v and connection secret %q", u.GetLabels(), name)
	}
	s := t.wantAnswer(orders, contract.Applied, "set by the platform", "spec.parameters.maxConnections, spec.parameters.sharedBuffers")
	want := map[string]any{"parameters": map[string]any{"maxConnections": int64(50), "sharedBuffers": "2GB"}, "writeConnectionSecretToRef": map[string]any{"name": "pg"}}
	if diff := cmp.Diff(want, s.Effective); diff != "" {
		w.Errorf("effective (-want +got): %s", diff)
	}
	t.push("Order", map[string]string{sales: manifest(sales, nano)})
	s = t.wantAnswer(sales, contract.Applied)
	if s.Message != "" || len(s.Effective) != 2 {
		w.Errorf("a claim that is not overruled: %q, effective %v", s.Message, s.Effective)
	}

	w.patch(api)
	t.wantObject(orders, "spec.parameters.sharedBuffers", "1GB")
	t.eventually("what is not set any more is not shown", func() error {
		if s := t.answer(orders); s.Effective != nil || s.Message != "" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if u := t.object(orders); u.GetLabels()["tier"] != "" {
		w.Errorf("labels %v", u.GetLabels())
	}
	w.wantTransform(api, "", "")
}

func TestD18_ABadTemplateStopsNothingElse(test *testing.T) {
	w := newWorld(test)
	apis := apis{postgresql: w.define(postgresqlFile), caches: w.define(cachesFile)}
	w.must(w.control().Rediscover(test.Context()))
	w.startBridge()
	t := w.tenant(apis.postgresql, apis.caches)
	before, orders, other := path(apis.postgresql, "team-a", "before"), path(apis.postgresql, "team-a", "orders"), path(apis.caches, "team-a", "c")
	t.push("Order", map[string]string{before: manifest(before, nano)})
	applied := t.wantAnswer(before, contract.Applied)
	version := t.object(before).GetResourceVersion()

	for _, bad := range []struct {
		what, patch, condition string
		result                 contract.Result
		words                  string
	}{
		{"cannot be read", "spec: [", "patches[0] is not valid YAML", contract.Failed, "is not valid YAML"},
		{"writes elsewhere", "metadata: {name: other}", "metadata.name", contract.Failed, "Its operator must mend it"},
		{"does not fit", "- {op: replace, path: /spec/none/such, value: 1}", "", contract.Failed, "does not fit this claim"},
		{"makes it invalid", "spec: {plan: huge}", "", contract.Failed, `Unsupported value: "huge"`},
		{"makes another kind", "kind: Secret", "", contract.Denied, "another object"},
		{"makes what the API server cannot take", "spec: {compositionRevisionRef: {name: [1]}}", "", contract.Failed, "spec.compositionRevisionRef.name: expected string"},
	} {
		w.Log(bad.what)
		w.patch(apis.postgresql, bad.patch)
		if bad.condition == "" {
			w.wantTransform(apis.postgresql, metav1.ConditionTrue, "")
		} else {
			w.wantTransform(apis.postgresql, metav1.ConditionFalse, bad.condition)
		}
		t.push("Order both", map[string]string{orders: manifest(orders, nano), other: manifest(other, "  size: small")})
		t.wantAnswer(orders, bad.result, bad.words)
		t.wantAnswer(other, contract.Applied)
		if bad.condition != "" {
			if s := t.answer(before); s.Result != contract.Applied || s.Answers != applied.Answers || t.object(before).GetResourceVersion() != version {
				w.Errorf("%s: a claim that was applied before: %+v", bad.what, s)
			}
		}
		t.push("Cancel both", map[string]string{orders: "", other: ""})
		t.wantAnswer(orders, contract.Gone)
		t.wantAnswer(other, contract.Gone)
	}

	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Failed)
	w.patch(apis.postgresql, "spec: {parameters: {maxConnections: 50}}")
	t.wantAnswer(orders, contract.Applied)
	t.wantAnswer(before, contract.Applied)

	// A template that is gone takes nothing along.
	var template v1alpha1.APIServiceExportTemplate
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: apis.postgresql.BindingName()}, &template))
	w.must(w.admin.Delete(w.Context(), &template))
	t.push("Order", map[string]string{other: manifest(other, "  size: small")})
	t.wantAnswer(other, contract.Applied)
	sales := path(apis.postgresql, "team-a", "sales")
	t.push("Order", map[string]string{sales: manifest(sales, nano)})
	t.wantAnswer(sales, contract.Failed, "does not exist any more")
	got, _, _ := unstructured.NestedInt64(t.object(orders).Object, "spec", "parameters", "maxConnections")
	if s := t.answer(orders); s.Result != contract.Applied || got != 50 {
		w.Errorf("the template's patch went with it: %d connections, %+v", got, s)
	}
	template.ObjectMeta = metav1.ObjectMeta{Name: template.Name}
	w.must(w.admin.Create(w.Context(), &template))
	t.wantAnswer(sales, contract.Applied)
}
