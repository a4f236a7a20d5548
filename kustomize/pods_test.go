package kustomize_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// build gives what kustomize makes of a folder.
func build(t *testing.T, dir string) resources {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	all := resources{}
	for _, r := range built.Resources() {
		if all[r.GetKind()+"/"+r.GetName()], err = r.AsYAML(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// resources are manifests by kind and name.
type resources map[string][]byte

// decode decodes those of a kind, without unknown fields.
func decode[T any](t *testing.T, r resources, kind string) map[string]T {
	t.Helper()
	out := map[string]T{}
	for id, text := range r {
		var typed T
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(text, &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Kind != kind {
			continue
		}
		if err := yaml.UnmarshalStrict(text, &typed); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		out[id] = typed
	}
	return out
}

func TestSelectorsSelectPods(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"control-plane", "konnector", "shard"} {
		r := build(t, folder)
		deployments := decode[appsv1.Deployment](t, r, "Deployment")
		selectors := map[string]*metav1.LabelSelector{}
		for id, b := range decode[policyv1.PodDisruptionBudget](t, r, "PodDisruptionBudget") {
			selectors[id] = b.Spec.Selector
		}
		for id, s := range decode[corev1.Service](t, r, "Service") {
			selectors[id] = &metav1.LabelSelector{MatchLabels: s.Spec.Selector}
		}
		for id, d := range deployments {
			for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
				selectors[id+" spread over nodes"] = c.LabelSelector
			}
		}
		if len(deployments) == 0 || len(selectors) < 2 {
			t.Errorf("%s has %d Deployments and selectors %v", folder, len(deployments), selectors)
		}
		for id, of := range selectors {
			s, err := metav1.LabelSelectorAsSelector(of)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, d := range deployments {
				if s.Matches(labels.Set(d.Spec.Template.Labels)) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s: %s selects the pods of %d Deployments, not of one: %s", folder, id, n, s)
			}
		}
	}
}
