package kustomize_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"gitbind.dev/test/bench/figure"
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

// TestRequestsAreWhatWasMeasured compares requests and limits with what docs/bench measured in
// an idle process at the most claims.
func TestRequestsAreWhatWasMeasured(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/bench/latest.json")
	if err != nil {
		t.Fatal(err)
	}
	var figures []figure.Figure
	if err := json.Unmarshal(text, &figures); err != nil {
		t.Fatal(err)
	}
	deployments := decode[appsv1.Deployment](t, build(t, "control-plane"), "Deployment")
	maps.Copy(deployments, decode[appsv1.Deployment](t, build(t, "konnector"), "Deployment"))
	for process, deployment := range map[string]string{"backend": "gitbind-backend", "gitbridge": "gitbind-gitbridge", "konnector-app": "konnector"} {
		idle, at := 0.0, 0
		for _, f := range figures {
			if f.Name == "memory of "+process+", idle" && f.Size > at {
				idle, at = f.P50, f.Size
			}
		}
		c := deployments["Deployment/"+deployment].Spec.Template.Spec.Containers[0]
		request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
		if used := int64(idle * (1 << 20)); used == 0 || request < used || request > used*3/2 {
			t.Errorf("%s requests %d MiB and takes %.0f MiB at %d claims", deployment, request>>20, idle, at)
		}
		i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "GOMEMLIMIT" })
		heap, err := resource.ParseQuantity(strings.TrimSuffix(c.Env[i].Value, "B"))
		if err != nil || heap.Value() <= request || heap.Value() >= limit {
			t.Errorf("%s has GOMEMLIMIT %s (%v), a request of %d MiB and a limit of %d MiB", deployment, c.Env[i].Value, err, request>>20, limit>>20)
		}
	}
}

// A control plane may be an app cluster of another one, and `disconnect --all` there deletes
// all objects of a konnector but the namespace.
func TestAKonnectorAndAControlPlaneShareNothingButTheNamespace(t *testing.T) {
	controlPlane := build(t, "control-plane")
	for id := range build(t, "konnector") {
		if _, shared := controlPlane[id]; shared && id != "Namespace/gitbind-system" {
			t.Errorf("%s is of both", id)
		}
	}
}
