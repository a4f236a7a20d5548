package bind

import (
	"bytes"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

// Kubernetes before 1.36 has no MutatingAdmissionPolicyBinding: kubectl apply would end with an error there.
func TestWhatAClusterHasNoKindOfIsNotPrinted(t *testing.T) {
	t.Parallel()
	for lacks, want := range map[string]bool{"MutatingAdmissionPolicy": false, "none": true} {
		var out, notes bytes.Buffer
		b := binder{connection: &v1alpha1.Connection{}}
		b.Cluster = &appcluster.Cluster{WithWatch: fakeapi.New(fakeapi.Builder().WithRESTMapper(fakeapi.MapperWithout(lacks)))}
		b.DryRun, b.Terminal, b.Notes = true, terminal.Open(nil, &out), &notes
		offer := restapi.Offer{Name: "postgresql", API: postgresql}
		if err := b.preview(t.Context(), offer); err != nil {
			t.Fatal(err)
		}
		if err := b.print(t.Context(), offer); err != nil {
			t.Fatal(err)
		}
		for _, named := range []string{"mutatingadmissionpolicybinding/", "kind: MutatingAdmissionPolicyBinding"} {
			if strings.Contains(out.String(), named) != want {
				t.Errorf("lacks %s: %q is told: %v", lacks, named, !want)
			}
		}
		if strings.Contains(notes.String(), "no attribution: Kubernetes 1.36") == want || !strings.Contains(out.String(), "kind: APIServiceBinding\n") {
			t.Errorf("lacks %s: it says %q, and prints %s", lacks, notes.String(), out.String())
		}
	}
}
