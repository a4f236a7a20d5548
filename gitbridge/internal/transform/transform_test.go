package transform_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/internal/transform"
)

func input() transform.Input {
	return transform.Input{
		Claim: &contract.Claim{
			APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders",
			Labels:      map[string]string{"team": "a"},
			Annotations: map[string]string{"note": "hi"},
			Spec:        map[string]any{"plan": "small"},
		},
		Cluster: tenant.Cluster{ID: "k3x9d2abqw", UID: "u", Namespace: "gb-k3x9d2abqw"},
		Binding: "postgresqlinstances.anynines.com", Shape: crossplane.Claim,
		APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance",
		Blob: "b10b", Commit: "c0",
	}
}

func TestObject(t *testing.T) {
	result, err := transform.Object(input())
	if err != nil || result.Left != nil || result.Effective != nil {
		t.Fatal(result, err)
	}
	want := map[string]any{
		"apiVersion": "anynines.com/v1",
		"kind":       "PostgresqlInstance",
		"metadata": map[string]any{
			"namespace": "gb-k3x9d2abqw-team-a", "name": "orders",
			"labels": map[string]any{
				"team": "a", "gitbind.dev/cluster": "k3x9d2abqw", "gitbind.dev/namespace": "team-a", "gitbind.dev/name": "orders",
			},
			"annotations": map[string]any{
				"note": "hi", "gitbind.dev/applied": transform.Applied("b10b", crossplane.Claim, "anynines.com/v1", nil, nil), "gitbind.dev/commit": "c0",
			},
		},
		"spec": map[string]any{"plan": "small", "compositeDeletePolicy": "Foreground"},
	}
	if diff := cmp.Diff(want, result.Object.Object); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

func TestH9_OnlyWhatTheListHasReachesTheObject(t *testing.T) {
	in := input()
	in.Keys = contract.Keys{"example.com/"}
	in.Claim.Labels["sidecar.istio.io/inject"] = "true"
	in.Claim.Annotations["example.com/owner"], in.Claim.Annotations["eks.amazonaws.com/role-arn"] = "a", "arn"
	got, err := transform.Object(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"metadata.annotations[eks.amazonaws.com/role-arn]", "metadata.labels[sidecar.istio.io/inject]"}, got.Stray); diff != "" {
		t.Errorf("stray (-want +got): %s", diff)
	}
	labels, annotations := got.Object.GetLabels(), got.Object.GetAnnotations()
	if labels["sidecar.istio.io/inject"] != "" || annotations["eks.amazonaws.com/role-arn"] != "" || annotations["example.com/owner"] != "a" || labels["team"] != "a" {
		t.Errorf("labels %v, annotations %v", labels, annotations)
	}
	if listed := transform.Applied("b", crossplane.Claim, "g/v1", nil, in.Keys); listed == transform.Applied("b", crossplane.Claim, "g/v1", nil, nil) {
		t.Error("another list is applied to what is there as none")
	}
}

func TestMachineryDoesNotPassFromAnAppCluster(t *testing.T) {
	in := input()
	in.Claim.Spec = map[string]any{
		"plan": "small", "resourceRef": map[string]any{"name": "somebody-elses"}, "compositeDeletePolicy": "Background",
		"compositionRevisionRef": map[string]any{"name": "old"}, "compositionRef": map[string]any{"name": "a8s-postgresql"},
	}
	got, err := transform.Object(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"compositeDeletePolicy", "compositionRevisionRef", "resourceRef"}, got.Left); diff != "" {
		t.Errorf("left out (-want +got): %s", diff)
	}
	want := map[string]any{"plan": "small", "compositeDeletePolicy": "Foreground", "compositionRef": map[string]any{"name": "a8s-postgresql"}}
	if diff := cmp.Diff(want, got.Object.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got): %s", diff)
	}
	if _, ok := in.Claim.Spec["resourceRef"]; !ok {
		t.Error("the claim itself was changed")
	}
}

func TestSteeringMetadataDoesNotPassFromAnAppCluster(t *testing.T) {
	in := input()
	forbidden := []string{
		"crossplane.io/external-name", "crossplane.io/paused", "crossplane.io/poll-interval", "crossplane.io/composition-resource-name",
		"app.kubernetes.io/instance", "node.kubernetes.io/x", "argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name",
		"kubectl.kubernetes.io/last-applied-configuration", "gitbind.dev/extra",
	}
	for _, key := range forbidden {
		in.Claim.Labels[key] = "x"
		in.Claim.Annotations[key] = "x"
	}
	// Nor can our own be chosen.
	in.Claim.Labels[tenant.ClusterLabel] = "aaaaaaaaaa"
	in.Claim.Labels[tenant.NamespaceLabel] = "team-b"
	in.Claim.Annotations[tenant.AppliedAnnotation] = "forged"
	result, err := transform.Object(in)
	if err != nil {
		t.Fatal(err)
	}
	got := result.Object
	for _, key := range forbidden {
		if got.GetLabels()[key] != "" || got.GetAnnotations()[key] != "" {
			t.Errorf("%s passed", key)
		}
	}
	if got.GetLabels()[tenant.ClusterLabel] != "k3x9d2abqw" || got.GetLabels()[tenant.NamespaceLabel] != "team-a" || got.GetAnnotations()[tenant.AppliedAnnotation] == "forged" {
		t.Errorf("labels %v, annotations %v", got.GetLabels(), got.GetAnnotations())
	}
}

func TestAnotherObjectIsRefused(t *testing.T) {
	for what, change := range map[string]func(*transform.Input){
		"another kind":  func(in *transform.Input) { in.Kind = "Secret" },
		"another group": func(in *transform.Input) { in.APIVersion = "rbac.authorization.k8s.io/v1" },
	} {
		in := input()
		change(&in)
		if result, err := transform.Object(in); !errors.Is(err, transform.ErrAnother) {
			t.Errorf("%s: got %v, %v", what, result, err)
		}
	}
}

func TestAppliedTellsWhatWentIn(t *testing.T) {
	base := transform.Applied("b", crossplane.Claim, "g/v1", nil, nil)
	if base != transform.Applied("b", crossplane.Claim, "g/v1", nil, nil) {
		t.Error("equal parts, other hash")
	}
	for what, other := range map[string]string{
		"blob":    transform.Applied("c", crossplane.Claim, "g/v1", nil, nil),
		"shape":   transform.Applied("b", crossplane.Plain, "g/v1", nil, nil),
		"version": transform.Applied("b", crossplane.Claim, "g/v2", nil, nil),
	} {
		if other == base {
			t.Errorf("another %s, equal hash", what)
		}
	}
}
