package version

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

func TestAKonnectorThatIsBeingRolledOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		updated, available int32
		format             output.Format
		want               string
	}{
		{1, 2, output.Table, "Client:    kubectl-gitbind v2\nKonnector: gitbind-konnector:v2 (being rolled out)\n"},
		{1, 2, output.JSON, `{
    "client": "v2",
    "konnector": "gitbind-konnector:v2",
    "rollingOut": true
}
`},
		{2, 2, output.Table, "Client:    kubectl-gitbind v2\nKonnector: gitbind-konnector:v2\n"},
		{2, 0, output.Table, "Client:    kubectl-gitbind v2\nKonnector: gitbind-konnector:v2\n"},
		{2, 2, output.JSON, `{
    "client": "v2",
    "konnector": "gitbind-konnector:v2"
}
`},
	} {
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: appcluster.SystemNamespace, Name: "konnector"},
			Status:     appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: c.updated, AvailableReplicas: c.available},
		}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Image: "gitbind-konnector:v2"}}
		var got bytes.Buffer
		in := Input{Client: "v2", Format: c.format}
		in.Cluster, in.Terminal = &appcluster.Cluster{WithWatch: fakeapi.New(fakeapi.Builder().WithObjects(deployment))}, terminal.Open(nil, &got)
		if err := Do(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got.String()); diff != "" {
			t.Errorf("%d new pods: (-want +got) %s", c.updated, diff)
		}
	}
}
