package base

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
)

func claimOf(labels map[string]string, spec map[string]any) *contract.Claim {
	return &contract.Claim{APIVersion: "example.org/v1", Kind: "Database", Namespace: "n", Name: "orders", Labels: labels, Spec: spec}
}

func managed(entries map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	var all []metav1.ManagedFieldsEntry
	for _, manager := range []string{"kubectl", "konnector", "provider"} {
		if fields := entries[manager]; fields != "" {
			e := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
			if manager == "provider" {
				e.Subresource = "status"
			}
			all = append(all, e)
		}
	}
	u.SetManagedFields(all)
	return u
}

func TestDifferencesNameFieldsAndWriters(t *testing.T) {
	t.Parallel()
	from := claimOf(map[string]string{"app.kubernetes.io/part-of": "shop"}, map[string]any{
		"plan": "small", "gone": "x", "same": int64(1), "list": []any{"a"}, "parameters": map[string]any{"connections": int64(1)},
	})
	live := claimOf(map[string]string{"app.kubernetes.io/part-of": "stock", "team": "a", "8080": "web"}, map[string]any{
		"plan": "big", "same": int64(1), "list": []any{"b"}, "parameters": map[string]any{"connections": int64(2), "stamp": "1"}, "whole": map[string]any{"a": "b"},
	})
	object := managed(map[string]string{
		"kubectl":   `{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{"f:plan":{},"f:parameters":{"f:connections":{}},"f:list":{"v:\"b\"":{}}}}`,
		"konnector": `{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{"f:same":{},"f:whole":{}}}`,
		"provider":  `{"f:spec":{"f:plan":{}}}`,
	})
	got := map[string][]string{}
	var gone []string
	for _, d := range Differences(from, live, object) {
		got[d.Name()] = d.Managers
		if d.Gone {
			gone = append(gone, d.Name())
		}
	}
	want := map[string][]string{
		"metadata.labels[8080]": nil, "metadata.labels[app.kubernetes.io/part-of]": nil, "metadata.labels.team": {"kubectl", "konnector"},
		"spec.gone": nil, "spec.list": {"kubectl"}, "spec.plan": {"kubectl"},
		"spec.parameters.connections": {"kubectl"}, "spec.parameters.stamp": nil, "spec.whole": {"konnector"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"spec.gone"}, gone); diff != "" {
		t.Error(diff)
	}
}

func TestABaseWithAllThatWasWrittenIsTheObject(t *testing.T) {
	t.Parallel()
	from := claimOf(nil, map[string]any{"plan": "small", "gone": "x"})
	live := claimOf(map[string]string{"team": "a"}, map[string]any{"plan": "big", "parameters": map[string]any{"stamp": "1"}})
	b := &Base{UID: "u", Claim: from, LeftOut: []string{"/spec/plan"}}
	got := b.WithWritten(Differences(from, live, nil))
	if diff := cmp.Diff(live, got.Claim); diff != "" {
		t.Error(diff)
	}
	// What the file did not say before it does not say now.
	if diff := cmp.Diff([]string{"/labels/team", "/spec/parameters", "/spec/plan"}, got.LeftOut); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(claimOf(nil, map[string]any{"plan": "small", "gone": "x"}), b.Claim); diff != "" {
		t.Errorf("the base itself has changed: %s", diff)
	}
}
