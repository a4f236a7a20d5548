package contract

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

func TestH9_LabelsAndAnnotationsTravelByAnAllowList(t *testing.T) {
	listed := Keys{"example.com/", "acme.io/cost-center"}
	for key, want := range map[string][2]bool{
		"team": {true, true}, "app.kubernetes.io/name": {true, true}, "app.kubernetes.io/instance": {}, "app.kubernetes.io/managed-by": {},
		"example.com/owner": {false, true}, "acme.io/cost-center": {false, true}, "acme.io/other": {}, "x.example.com/owner": {}, "acme.io/cost-center/x": {},
		"policies.kyverno.io/x": {}, "sidecar.istio.io/inject": {}, "eks.amazonaws.com/role-arn": {}, "reflector.v1.k8s.emberstack.com/reflects": {},
		"kubectl.kubernetes.io/last-applied-configuration": {}, "gitbind.dev/base": {}, "crossplane.io/external-name": {},
	} {
		if got := [2]bool{Keys(nil).Travels(key), listed.Travels(key)}; got != want {
			t.Errorf("%s travels %v by no list and by one, want %v", key, got, want)
		}
	}
	// Not even a list can let these travel.
	if never := (Keys{"gitbind.dev/", "crossplane.io/external-name", "app.kubernetes.io/"}); never.Travels("gitbind.dev/base") || never.Travels("crossplane.io/external-name") || never.Travels("app.kubernetes.io/instance") {
		t.Error("a list lets what is others' travel")
	}
}

func TestH9_AListIsValidated(t *testing.T) {
	long := make(Keys, maxKeys+1)
	for i := range long {
		long[i] = "example.com/a"
	}
	longest := strings.Repeat("a", 253) + "/" + strings.Repeat("x", 63)
	for _, c := range []struct {
		keys Keys
		ok   bool
	}{
		{nil, true},
		{Keys{"example.com/", "acme.io/cost-center", "io/x", "e.co/a.b_c-d"}, true},
		{Keys{"app.kubernetes.io/name"}, true}, // says nothing new
		{long, false}, {Keys{""}, false}, {Keys{"team"}, false}, {Keys{"/"}, false}, {Keys{"/x"}, false}, {Keys{"*"}, false}, {Keys{"*/x"}, false},
		{Keys{"Example.com/x"}, false}, {Keys{"example.com/x/y"}, false}, {Keys{"example.com/ x"}, false}, {Keys{"example.com/" + strings.Repeat("x", 400)}, false},
		{Keys{"gitbind.dev/"}, false}, {Keys{"gitbind.dev/base"}, false}, {Keys{"crossplane.io/external-name"}, false}, {Keys{"x.kubernetes.io/"}, false},
		{Keys{"argocd.argoproj.io/x"}, false},
		// As many and as long as they may be, and one more.
		{long[:maxKeys], true}, {Keys{longest}, true}, {Keys{longest + "x"}, false},
	} {
		if err := c.keys.Validate(); (err == nil) != c.ok {
			t.Errorf("%.60q: %v", c.keys, err)
		}
	}
}

func TestWhatDoesNotTravelIsNamedInOrder(t *testing.T) {
	t.Parallel()
	c := &Claim{
		Labels:      map[string]string{"team": "a", "example.com/owner": "b", "acme.io/a": "c", "acme.io/b": "c", "acme.io/c": "c"},
		Annotations: map[string]string{"note": "n", "gitbind.dev/base": "b", "acme.io/a": "c"},
	}
	want := []string{
		"metadata.annotations[acme.io/a]", "metadata.annotations[gitbind.dev/base]",
		"metadata.labels[acme.io/a]", "metadata.labels[acme.io/b]", "metadata.labels[acme.io/c]",
	}
	for range 20 { // The order of a map differs each time.
		if diff := cmp.Diff(want, Keys{"example.com/"}.Stray(c)); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

// metadataKey draws keys of each sort: such that always travel, may, and never do.
func metadataKey() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		prefix := rapid.SampledFrom([]string{"", "app.kubernetes.io/", "example.com/", "acme.io/", "policies.kyverno.io/", "gitbind.dev/", "crossplane.io/"}).Draw(t, "prefix")
		return prefix + rapid.SampledFrom([]string{"a", "b", "instance", "cost-center"}).Draw(t, "name")
	})
}

// TestH9_AFileAndAnObjectKeepWhatDoesNotTravel: whatever the list, what both say is
// compared by the same keys, and writing one to the other leaves the rest alone.
func TestH9_AFileAndAnObjectKeepWhatDoesNotTravel(t *testing.T) {
	metadata := rapid.MapOfN(metadataKey(), nasty(), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		keys := Keys(rapid.SliceOfDistinct(rapid.SampledFrom([]string{"example.com/", "acme.io/cost-center", "policies.kyverno.io/a", "gitbind.dev/"}), rapid.ID[string]).Draw(t, "keys"))
		draw := func(name string) *Claim {
			return &Claim{
				APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders",
				Labels: metadata.Draw(t, name+" labels"), Annotations: metadata.Draw(t, name+" annotations"), Spec: map[string]any{},
			}
		}
		version, file := keys.Of(draw("version")), draw("file")
		data, err := Encode(keys.With(version, file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(File{Path: ordersKey.Path(), Mode: ModeRegular, Data: data}, "PostgresqlInstance")
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !Equal(version, keys.Of(got)) {
			t.Fatalf("-want +got:\n%s\n%s", cmp.Diff(version, keys.Of(got)), data)
		}
		rest := func(m map[string]string, wanted func(string) bool) map[string]string {
			return filter(m, func(key string) bool { return !keys.Travels(key) && wanted(key) })
		}
		if !maps.Equal(rest(got.Labels, MayTravel), rest(file.Labels, MayTravel)) || !maps.Equal(rest(got.Annotations, MayTravel), rest(file.Annotations, MayTravel)) {
			t.Fatalf("the file of %v keeps %v", file, got)
		}

		before := draw("object")
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetLabels(before.Labels)
		u.SetAnnotations(before.Annotations)
		version.WriteTo(u, keys)
		live := keys.Of(FromObject(u))
		all := func(string) bool { return true }
		if !maps.Equal(live.Labels, version.Labels) || !maps.Equal(live.Annotations, version.Annotations) ||
			!maps.Equal(rest(u.GetLabels(), all), rest(before.Labels, all)) || !maps.Equal(rest(u.GetAnnotations(), all), rest(before.Annotations, all)) {
			t.Fatalf("written on labels %v, annotations %v: %v", before.Labels, before.Annotations, u.Object)
		}
		if len(keys.Stray(live)) > 0 {
			t.Fatalf("stray: %v", keys.Stray(live))
		}
	})
}
