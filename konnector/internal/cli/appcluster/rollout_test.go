package appcluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func TestRolledOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		replicas *int32
		status   appsv1.DeploymentStatus
		want     bool
	}{
		{"not looked at yet", new(int32(2)), appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, false},
		{"no new pod yet", new(int32(2)), appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, AvailableReplicas: 2}, false},
		{"a new pod that does not start", new(int32(2)), appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 2, UnavailableReplicas: 1}, false},
		{"an old pod is left", new(int32(2)), appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 2, UnavailableReplicas: 1}, false},
		{"done", new(int32(2)), appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, true},
		{"a first one, with no pod up", new(int32(2)), appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, UnavailableReplicas: 2}, false},
		{"a first one, with a pod up", new(int32(2)), appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1, UnavailableReplicas: 1}, true},
		{"no pod may be made", nil, appsv1.DeploymentStatus{ObservedGeneration: 2}, false},
		{"none is wanted", new(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 2}, true},
	} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: c.replicas}, Status: c.status}
		d.Generation = 2
		if got := IsRolledOut(d); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}
