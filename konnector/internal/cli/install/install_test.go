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
	built := Options{Registry: "built.example.com"}
	given := func(registry string) Options { return Options{Registry: registry, RegistryGiven: true} }
	for _, c := range []struct {
		running string
		options Options
		want    Options
		err     string
	}{
		{running: "built.example.com/gitbind-konnector:v1.2.2", options: built, want: built},
		{running: "gitbind-konnector:v1.2.2", options: built, want: Options{}},
		{running: "mirror.example.com:5000/team/gitbind-konnector:v1.2.3", options: built, want: Options{Registry: "mirror.example.com:5000/team"}},
		{running: "mirror.example.com/gitbind-konnector@sha256:0123", options: built, want: Options{Registry: "mirror.example.com"}},
		{running: "mirror.example.com/gitbind-konnector", options: built, want: Options{Registry: "mirror.example.com"}},
		{running: "mirror.example.com/gitbind-konnector:latest", options: built, want: Options{Registry: "mirror.example.com"}},
		{running: "mirror.example.com/gitbind-konnector:v1.2.2", options: given("another"), want: given("another")},
		{running: "mirror.example.com/gitbind-konnector:v1.2.2", options: given(""), want: given("")},
		{running: "mirror.example.com/ours:v1", options: built, err: "runs the image mirror.example.com/ours:v1"},
		{running: "mirror.example.com/ours:v1", options: given("another"), want: given("another")},
		{running: "mirror.example.com/ours:v1", options: Options{Image: "ours:v1"}, want: Options{Image: "ours:v1"}},
		{running: "gitbind-konnector:v1.2.4-2-g0123456789", options: built, err: "gitbind-konnector:v1.2.4-2-g0123456789, and this plugin is v1.2.3"},
		{running: "gitbind-konnector:v1.3.0", options: given("another"), err: "this plugin is v1.2.3"},
		{running: "gitbind-konnector:v1.3.0", options: Options{Image: "gitbind-konnector:v1.3.0"}, err: "this plugin is v1.2.3"},
		{running: "gitbind-konnector:v1.3.0", options: Options{Image: "gitbind-konnector:v1.2.3"}, want: Options{Image: "gitbind-konnector:v1.2.3"}},
	} {
		got, err := c.options.after(c.running, plugin)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, %+v: %v, want %s", c.running, c.options, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s, %+v: %+v, %v", c.running, c.options, got, err)
		}
	}
}

// Its rules would take the place of those that the konnector has, and it would leave behind what it
// does not know.
func TestAPluginThatIsOlderThanTheKonnectorIsRefused(t *testing.T) {
	const plugin = "v1.2.3"
	for running, want := range map[string]string{
		"": "", "gitbind-konnector:v1.2.3": "", "mirror.example.com:5000/gitbind-konnector:v1.2.2": "", "gitbind-konnector@sha256:0123": "",
		"mirror.example.com:5000/ours:v1.3.0": "the konnector's image is mirror.example.com:5000/ours:v1.3.0, and this plugin is v1.2.3: take the plugin of that version",
	} {
		if err := checkPlugin(running, plugin); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", running, err, want)
		}
	}
}

func TestAPluginKeepsTheRegistryOfTheKonnectorThatRuns(t *testing.T) {
	_, deployment := kinds(t, Options{Registry: "mirror.example.com"})
	api := fakeapi.New(fakeapi.Builder().WithObjects(deployment))
	for what, c := range map[string]struct {
		given, want Options
		told        int
	}{
		"nothing":       {Options{}, Options{Registry: "mirror.example.com"}, 1},
		"an image":      {Options{Image: "x"}, Options{Image: "x"}, 0},
		"no deployment": {Options{NoDeployment: true}, Options{NoDeployment: true}, 0},
	} {
		told := 0
		got, err := c.given.Continue(t.Context(), &appcluster.Cluster{WithWatch: api}, func(string) { told++ })
		if err != nil || got != c.want || told != c.told {
			t.Errorf("%s: %+v, told %d times, %v", what, got, told, err)
		}
	}
}
