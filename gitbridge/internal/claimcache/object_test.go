package claimcache

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers/informerstest"
	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/tenant"
)

const binding = "postgresqlinstances.anynines.com"

var (
	gvk     = schema.GroupVersionKind{Group: "anynines.com", Version: "v1", Kind: "PostgresqlInstance"}
	cluster = tenant.Cluster{ID: "abcdefghij"}
)

// applied is the object of a claim, as the API server has it.
func applied(i int) *unstructured.Unstructured {
	key := contract.Key{Binding: binding, Namespace: "team-a", Name: fmt.Sprintf("orders-%06d", i)}
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "parameters": map[string]any{"maxConnections": int64(120), "ratio": 0.5},
			"compositionRef": map[string]any{"name": "postgresql"}, "resourceRef": map[string]any{"apiVersion": "anynines.com/v1", "kind": "XPostgresqlInstance", "name": key.Name + "-x7k2p"},
		},
		"status": map[string]any{
			"conditions": []any{
				map[string]any{"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "lastTransitionTime": "2026-11-21T12:00:00Z", "observedGeneration": int64(2)},
				map[string]any{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "2026-11-21T12:00:03Z", "observedGeneration": int64(2)},
			},
			"managed": map[string]any{"clusterStatus": "Running", "readyReplicas": int64(1), "load": 0.25},
		},
	}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(cluster.ClaimNamespace(key.Namespace))
	u.SetName(key.Name)
	u.SetUID(types.UID(fmt.Sprintf("%08d-c4bb-4f1c-8ffd-1f2e3d4c5b6a", i)))
	u.SetResourceVersion(strconv.Itoa(1000 + i))
	u.SetGeneration(2)
	u.SetFinalizers([]string{"finalizer.apiextensions.crossplane.io"})
	labels := cluster.Labels(key)
	labels["team"] = "a"
	u.SetLabels(labels)
	u.SetAnnotations(map[string]string{
		tenant.AppliedAnnotation: fmt.Sprintf("%064d", i), tenant.CommitAnnotation: fmt.Sprintf("%040d", i/20), tenant.FieldsAnnotation: "0123456789abcdef",
		"crossplane.io/external-name": key.Name,
	})
	fields := `{"f:metadata":{"f:annotations":{"f:gitbind.dev/applied":{},"f:gitbind.dev/commit":{},"f:gitbind.dev/fields":{}},"f:labels":{"f:gitbind.dev/cluster":{},"f:gitbind.dev/name":{},"f:gitbind.dev/namespace":{},"f:team":{}}},"f:spec":{"f:parameters":{"f:maxConnections":{},"f:ratio":{}},"f:plan":{},"f:service":{}}}`
	u.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: tenant.FieldOwner, Operation: "Apply", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}},
		{Manager: "apiextensions.crossplane.io/claim", Operation: "Apply", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:finalizers":{"v:\"finalizer.apiextensions.crossplane.io\"":{}}},"f:spec":{"f:compositionRef":{"f:name":{}},"f:resourceRef":{}}}`)}},
		{Manager: "crossplane", Operation: "Update", Subresource: "status", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{".":{},"f:conditions":{},"f:managed":{}}}`)}},
	})
	return u
}

func decoded(tb testing.TB, u *unstructured.Unstructured) *cachedObject {
	tb.Helper()
	return informerstest.Decoded[*cachedObject](tb, u, func(data []byte) (client.Object, error) { return decodeObject(data, all) })
}

// all keeps the objects of all app clusters.
func all(string, string) bool { return true }

func TestTheCacheKeepsWhatDecisionsNeed(t *testing.T) {
	for name, change := range map[string]func(u *unstructured.Unstructured){
		"applied":     func(*unstructured.Unstructured) {},
		"a long name": func(u *unstructured.Unstructured) { u.SetName(strings.Repeat("x", 100)) },
		"terminating": func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(new(metav1.NewTime(time.Unix(1e9, 0)))) },
		"not ours":    func(u *unstructured.Unstructured) { u.SetAnnotations(nil) },
		"handed over": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{"gitbind.dev/adopt": cluster.ID})
		},
		"no status":       func(u *unstructured.Unstructured) { delete(u.Object, "status") },
		"no field lists":  func(u *unstructured.Unstructured) { u.SetManagedFields(nil) },
		"not ours at all": func(u *unstructured.Unstructured) { u.SetManagedFields(u.GetManagedFields()[1:]) },
	} {
		t.Run(name, func(t *testing.T) {
			u := applied(1)
			change(u)
			got, err := decoded(t, u).object()
			if err != nil {
				t.Fatal(err)
			}
			want := u.DeepCopy()
			delete(want.Object, "spec")
			want.SetFinalizers(nil)
			drift.Slim(want)
			ours := cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "team" || key == "crossplane.io/external-name" })
			if diff := cmp.Diff(kruntime.DeepCopyJSON(want.Object), kruntime.DeepCopyJSON(got.Object), ours, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-object +cache): %s", diff)
			}
			if drift.Found(got) != drift.Found(u) {
				t.Errorf("found %q, want %q", drift.Found(got), drift.Found(u))
			}
		})
	}
}

// The end of a list is told by an annotation of an object without a name.
// A kind that is not Crossplane's may have anything where a claim has the name of its
// connection Secret.
func TestASpecOfAnyShapeIsTaken(t *testing.T) {
	for spec, want := range map[string]string{
		`{"writeConnectionSecretToRef":{"name":"orders-conn"}}`: "orders-conn",
		`{"writeConnectionSecretToRef":"orders-conn"}`:          "",
		`{"writeConnectionSecretToRef":[{"name":1}]}`:           "",
		`"writeConnectionSecretToRef"`:                          "",
		`[1,2]`:                                                 "",
		`null`:                                                  "",
		`{"plan":"small"}`:                                      "",
	} {
		o, err := decodeObject([]byte(`{"apiVersion":"x/v1","kind":"X","metadata":{"name":"a","namespace":"b","uid":"u"},"spec":`+spec+`}`), all)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		u, err := o.object()
		if got, _, _ := unstructured.NestedString(u.Object, "spec", "writeConnectionSecretToRef", "name"); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", spec, got, err, want)
		}
	}
}

func TestABookmarkKeepsItsAnnotations(t *testing.T) {
	o, err := decodeObject([]byte(`{"apiVersion":"anynines.com/v1","kind":"PostgresqlInstance","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"7"}}`), all)
	if err != nil {
		t.Fatal(err)
	}
	if o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || o.GetResourceVersion() != "7" {
		t.Errorf("it is read as %+v", o)
	}
}

func TestObjectsAreThereOnceAllAreKnown(t *testing.T) {
	t.Parallel()
	told := make(chan contract.Key, 10)
	var all [][]byte
	for i := range 3 {
		data, err := json.Marshal(applied(i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	config := informerstest.Serve(t, "anynines.com/v1", "PostgresqlInstance", func(yield func([]byte) bool) {
		for _, data := range all {
			yield(data)
		}
	})
	objects, err := New(config, newMembers(cluster.ID), func(id string, key contract.Key, now bool) {
		if id == cluster.ID && !now {
			told <- key
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	namespace := cluster.ClaimNamespace("team-a")
	if u, err := objects.Get(gvk, namespace, "orders-000001"); err == nil {
		t.Errorf("before anybody watches it is %v", u)
	}
	go func() { _ = objects.Start(t.Context()) }()
	if err := objects.Watch(t.Context(), gvk, binding, cluster.ID, nil); err != nil {
		t.Fatal(err)
	}
	u, err := objects.Get(gvk, namespace, "orders-000001")
	if err != nil || u == nil || u.GetUID() != applied(1).GetUID() {
		t.Errorf("it is %v, %v", u, err)
	}
	if u, err := objects.Get(gvk, namespace, "another"); u != nil || err != nil {
		t.Errorf("one that is not there is %v, %v", u, err)
	}
	// A list has no order.
	got, want := map[contract.Key]int{}, map[contract.Key]int{}
	for i := range all {
		got[<-told]++
		want[contract.Key{Binding: binding, Namespace: "team-a", Name: fmt.Sprintf("orders-%06d", i)}]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told of (-want +got): %s", diff)
	}
}

// A hundred thousand must leave room for all else in 600 MiB.
func TestAnAppliedObjectTakesLittle(t *testing.T) {
	const n, most = 2000, 1300
	all := make([]*cachedObject, n)
	before := informerstest.Heap()
	for i := range all {
		all[i] = decoded(t, applied(i))
	}
	each := (informerstest.Heap() - before) / n
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("an object takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(all)
}

// BenchmarkList is the list of a start, from an API server into the cache.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			data, err := json.Marshal(applied(0))
			if err != nil {
				b.Fatal(err)
			}
			config := informerstest.Serve(b, "anynines.com/v1", "PostgresqlInstance", func(yield func([]byte) bool) {
				for i := range n {
					if !yield(informerstest.Renamed(data, "000000", fmt.Sprintf("%06d", i))) {
						return
					}
				}
			})
			for b.Loop() {
				before := informerstest.Heap()
				objects, err := New(config, newMembers(cluster.ID), func(string, contract.Key, bool) {})
				if err != nil {
					b.Fatal(err)
				}
				go func() { _ = objects.Start(b.Context()) }()
				// It says so when it takes long, and goes on.
				_ = objects.Watch(b.Context(), gvk, binding, cluster.ID, nil)
				<-objects.kinds[gvk].current.synced
				b.ReportMetric(float64(informerstest.Heap()-before)/float64(n), "heap-B/object")
				runtime.KeepAlive(objects)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/object")
		})
	}
}
