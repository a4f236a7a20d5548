package app_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/app"
	places "gitbind.dev/gitbridge/internal/tenant"
)

func TestC3_OverlongNames(test *testing.T) {
	w := newWorld(test)
	widgets := w.define("testdata/plain.yaml")
	w.must(w.control().Rediscover(test.Context()))
	w.startBridge()
	t := w.tenant(widgets)
	cluster := places.Cluster{ID: t.id}
	// Two namespaces and two names that are equal as far as they fit.
	long := strings.Repeat("n", 62)
	name := "a" + strings.Repeat("b.c-d", 39) + "z23"
	files := map[string]string{}
	at := map[string]string{}
	for _, namespace := range []string{long + "1", long + "2"} {
		for _, name := range []string{name + "1", name + "2"} {
			p := path(widgets, namespace, name)
			files[p] = manifest(p, "  color: blue")
			at[p] = cluster.ClaimNamespace(namespace) + "/" + name
		}
	}
	if len(name)+1 != 200 {
		w.Fatalf("the name has %d characters", len(name)+1)
	}
	t.push("Order", files)
	for p, want := range at {
		if s := t.wantAnswer(p, contract.Applied); s.Object != want {
			w.Errorf("%s is at %s, want %s", p, s.Object, want)
		}
		namespace, name, _ := strings.Cut(want, "/")
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Widget"})
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, u))
		key, _ := contract.ParsePath(p)
		id, origin, ok := places.Origin(key.Binding, u.GetNamespace(), u.GetName(), u.GetLabels())
		if !ok || id != t.id || origin != key || u.GetAnnotations()[places.NameLabel] != key.Name {
			w.Errorf("%s does not lead back: %s %s", want, id, origin)
		}
	}
	if namespaces := slices.Compact(slices.Sorted(maps.Values(at))); len(namespaces) != 4 {
		w.Errorf("objects meet: %v", namespaces)
	}
	// Each is its own: one goes, three stay.
	first := slices.Sorted(maps.Keys(at))[0]
	t.push("Cancel", map[string]string{first: ""})
	t.wantAnswer(first, contract.Gone)
	if left := w.names("example.net/v1 Widget"); len(left) != 3 {
		w.Errorf("left: %v", left)
	}
	tooLong := path(widgets, "team-a", name+"33")
	t.push("Too long", map[string]string{tooLong: "x"})
	t.wantAnswer(tooLong, contract.Invalid, "201 characters")
}

func TestC4_ManyClaimsOfManyAPIs(test *testing.T) {
	w := newWorld(test)
	apis := map[v1alpha1.ExportedAPI]string{
		w.define(postgresqlFile): nano, w.define(cachesFile): "  size: small", w.define("testdata/plain.yaml"): "  color: blue", w.define(brokersFile): rich,
	}
	w.startBridgeWith(app.Options{Workers: 128})
	t := w.tenant(slices.Collect(maps.Keys(apis))...)
	const each = 150
	files := map[string]string{}
	for api, spec := range apis {
		for i := range each {
			p := path(api, fmt.Sprintf("team-%d", i%3), fmt.Sprintf("c%d", i))
			files[p] = manifest(p, spec)
		}
	}
	bad := path(slices.Collect(maps.Keys(apis))[0], "team-0", "bad")
	files[bad] = "no: [claim"
	began := time.Now()
	t.push("Order everything", files)
	t.wantManyObserved()
	w.Logf("%d claims of %d APIs, all answered, in %s and %s commits", len(files)-1, len(apis), time.Since(began).Round(time.Millisecond), w.host.run(t.id, "rev-list", "--count", "status"))
	// One that failed for some seconds was answered, too.
	t.eventuallyIn(patienceForMany, "each has its last answer", func() error {
		snap, err := t.status.Fetch(t.Context())
		w.must(err)
		for p := range files {
			data, err := snap.Read(contract.StatusPath(p))
			w.must(err)
			s, err := contract.DecodeStatus(data)
			w.must(err)
			if want := contract.Applied; p != bad && s.Result != want || p == bad && s.Result != contract.Invalid {
				return fmt.Errorf("%s: %+v", p, s)
			}
		}
		return nil
	})
	objects := func() map[string]string {
		all := map[string]string{}
		for _, kind := range []string{"anynines.com/v1 PostgresqlInstance", "example.org/v1 Cache", "example.net/v1 Widget", "example.net/v1 Broker"} {
			names := w.names(kind)
			if len(names) != each {
				w.Errorf("%d of %s, want %d", len(names), kind, each)
			}
			maps.Copy(all, names)
		}
		return all
	}
	// One change of one of them is one write, whatever else there is.
	one := path(v1alpha1.ExportedAPI{Group: "example.net", Resource: "widgets"}, "team-0", "c0")
	before := objects()
	t.push("Paint", map[string]string{one: manifest(one, "  color: green")})
	t.wantObject(one, "spec.color", "green")
	t.wantObserved()
	changed := 0
	for name, version := range objects() {
		if before[name] != version {
			changed++
		}
	}
	if changed != 1 {
		w.Errorf("%d objects changed", changed)
	}
}

// TestC8_AnAPIInTwoVersions serves one API in two versions to two app clusters.
func TestC8_AnAPIInTwoVersions(test *testing.T) {
	w := newWorld(test)
	v1 := w.define(brokersFile)
	older := v1
	older.Version = "v1alpha1"
	w.startBridge()
	for _, api := range []v1alpha1.ExportedAPI{v1, older} {
		t := w.tenant(api)
		events := path(api, "team-a", "events")
		file := strings.Replace(manifest(events, rich), "example.net/v1", "example.net/"+api.Version, 1)
		t.push("Order", map[string]string{events: file})
		t.wantAnswer(events, contract.Applied)
		t.setStatus(events, map[string]any{"ready": true, "url": "amqp://" + api.Version})
		t.eventually("its status is there", func() error {
			return is(fmt.Sprint(t.answer(events).Status["url"]), "amqp://"+api.Version)
		})
		// It is published beside the answers, not before them.
		var e *v1alpha1.APIServiceExport
		t.eventually("the export is published", func() (err error) {
			e, err = t.exported(api)
			return err
		})
		if !strings.Contains(string(e.Status.CRD.Raw), `"name":"`+api.Version+`","schema"`) {
			w.Errorf("export of %s: %s", api.Version, e.Status.CRD.Raw)
		}
		// Somebody works in the other version.
		applied := t.object(events)
		t.edit(events, `{"spec":{"owner":"anna"}}`)
		t.edit(events, `{"spec":{"mode":"safe"}}`)
		t.wantObject(events, "spec.mode", "fast")
		t.wantObject(events, "spec.owner", "anna")
		if u := t.object(events); u.GetUID() != applied.GetUID() {
			w.Error("it was made again")
		}
		other := path(api, "team-a", "other")
		t.push("Other version", map[string]string{other: strings.Replace(file, "example.net/"+api.Version, "example.net/v9", 1)})
		t.wantAnswer(other, contract.Invalid)
	}
}
