package connect

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

// Kubernetes before 1.36 has no MutatingAdmissionPolicy: kubectl apply would end with an error there.
func TestWhatAClusterHasNoKindOfIsNotPrinted(t *testing.T) {
	t.Parallel()
	for lacks, want := range map[string]bool{"MutatingAdmissionPolicy": false, "none": true} {
		var out, notes bytes.Buffer
		before := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		before.Spec.SecretRef.Name = "gitbind-default"
		c := connecting{before: before}
		c.Cluster = &appcluster.Cluster{WithWatch: fakeapi.New(fakeapi.Builder().WithRESTMapper(fakeapi.MapperWithout(lacks)))}
		c.Name, c.Terminal, c.Notes = "default", terminal.Open(nil, &out), &notes
		if err := c.print(t.Context()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "kind: MutatingAdmissionPolicy") != want || !strings.Contains(out.String(), "kind: ValidatingAdmissionPolicy\n") {
			t.Errorf("lacks %s: it prints %s", lacks, out.String())
		}
		if strings.Contains(notes.String(), "mutatingadmissionpolicy/gitbind-attribution left out: Kubernetes 1.36") == want {
			t.Errorf("lacks %s: it says %s", lacks, notes.String())
		}
	}
}
