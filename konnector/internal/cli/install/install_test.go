package install

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"gitbind.dev/gitbridge/version"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/test/fakeapi"
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

func TestTheImageComesFromWhereTheClusterHasIt(t *testing.T) {
	const plugin = "v1.2.3"
	for _, c := range []struct {
		running  string
		given    Options
		registry string
		err      string
	}{
		{running: "gitbind-konnector:v1.2.2"},
		{running: "mirror.example.com:5000/team/gitbind-konnector:v1.2.3", registry: "mirror.example.com:5000/team"},
		{running: "mirror.example.com/gitbind-konnector@sha256:0123", registry: "mirror.example.com"},
		{running: "mirror.example.com/gitbind-konnector", registry: "mirror.example.com"},
		{running: "mirror.example.com/gitbind-konnector:latest", registry: "mirror.example.com"},
		{running: "mirror.example.com/gitbind-konnector:v1.2.2", given: Options{Registry: "another"}, registry: "another"},
		{running: "mirror.example.com/ours:v1", err: "--image"},
		{running: "mirror.example.com/ours:v1", given: Options{Registry: "another"}, registry: "another"},
		{running: "gitbind-konnector:v1.2.4-2-g0123456789", err: "is v1.2.4-2-g0123456789, and this plugin is v1.2.3"},
		{running: "gitbind-konnector:v1.3.0", given: Options{Registry: "another"}, err: "this plugin is v1.2.3"},
	} {
		got, err := c.given.after(c.running, plugin)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.running, err, c.err)
			}
			continue
		}
		if err != nil || got.Registry != c.registry {
			t.Errorf("%s, %+v: from %q: %v", c.running, c.given, got.Registry, err)
		}
	}
}

func TestAPluginKeepsTheRegistryOfTheKonnectorThatRuns(t *testing.T) {
	_, deployment := kinds(t, Options{Registry: "mirror.example.com"})
	api := fakeapi.New(fakeapi.Builder().WithObjects(deployment))
	var told []string
	got, err := Options{}.Continue(t.Context(), &appcluster.Cluster{WithWatch: api}, func(line string) { told = append(told, line) })
	if err != nil || got.Registry != "mirror.example.com" || len(told) != 1 {
		t.Errorf("%+v, %q, %v", got, told, err)
	}
	for what, o := range map[string]Options{"an image that was named": {Image: "x"}, "no deployment": {NoDeployment: true}} {
		if got, err := o.Continue(t.Context(), &appcluster.Cluster{WithWatch: api}, nil); err != nil || got != o {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}
