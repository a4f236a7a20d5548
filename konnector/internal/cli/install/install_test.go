package install

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"gitbind.dev/gitbridge/version"
)

var update = flag.Bool("update", false, "rewrite the built-in manifest")

func TestManifestIsCurrent(t *testing.T) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../../../kustomize/konnector")
	if err != nil {
		t.Fatal(err)
	}
	want, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("konnector.yaml", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(manifest, want) {
		t.Fatalf("konnector.yaml is not what kustomize/konnector gives: run make generate\n%s", cmp.Diff(string(want), string(manifest)))
	}
}

func kinds(t *testing.T, o Options) (out []string, deployment *unstructured.Unstructured) {
	t.Helper()
	objects, err := Objects(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		out = append(out, u.GetKind()+"/"+u.GetName())
		if u.GetKind() == "Deployment" {
			deployment = u
		}
	}
	return out, deployment
}

func TestObjects(t *testing.T) {
	all, _ := kinds(t, Options{})
	without, deployment := kinds(t, Options{NoDeployment: true})
	if deployment != nil || len(without) != len(all)-2 {
		t.Errorf("without the Deployment and its PodDisruptionBudget it installs %v", without)
	}
	if all[0] != "Namespace/gitbind-system" {
		t.Errorf("the first is %s, but the others need the namespace", all[0])
	}
}

func TestTheImageIsThatOfThisVersion(t *testing.T) {
	for want, o := range map[string]Options{
		"registry.example.com/konnector:v1":                                               {Image: "registry.example.com/konnector:v1"},
		"mirror.example.com:5000/team/gitbind-konnector:" + version.Tag(version.String()): {Registry: "mirror.example.com:5000/team"},
		"gitbind-konnector:" + version.Tag(version.String()):                              {},
	} {
		_, deployment := kinds(t, o)
		containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		if got := containers[0].(map[string]any)["image"]; got != want {
			t.Errorf("%+v gives the image %v, want %s", o, got, want)
		}
	}
}
