package packed

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is one as a konnector's cache has it.
func object(i int) *unstructured.Unstructured {
	conditions := func() (all []any) {
		for _, kind := range []string{"Committed", "Applied", "Ready", "Held"} {
			all = append(all, map[string]any{"type": kind, "status": "True", "reason": "Available", "message": "", "observedGeneration": int64(1)})
		}
		return all
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "anynines.com/v1", "kind": "PostgresqlInstance",
		"metadata": map[string]any{
			"name": fmt.Sprintf("orders-%06d", i), "namespace": "team-a", "uid": fmt.Sprintf("%08d-c4bb-4f1c-8ffd-1f2e3d4c5b6a", i), "resourceVersion": fmt.Sprint(1000 + i), "generation": int64(1),
			"creationTimestamp": "2026-11-21T12:00:00Z", "finalizers": []any{"gitbind.dev/claim"},
			"labels": map[string]any{"app.kubernetes.io/part-of": "shop"},
			"annotations": map[string]any{
				"example.org/owner": "the team that takes the orders, floor 3, phone 4711",
				"gitbind.dev/base":  fmt.Sprintf(`{"uid":"%08d-c4bb-4f1c-8ffd-1f2e3d4c5b6a","commit":"d0be2dc421be4fcd0172e5afceea3970e2f3d940","content":"H4sIAAAAAAAA/3yQQU7DMBBF7+J1EhSCkMg2EqxYsEBiP3GmicGxXc+4pap6dyaV2qIu2Hne/H7+/gcF0XxgYhN8q6Ju+qb`+"`"+`vQK4nG56rY7RWvJbgOzfpVVh5cpP8v0"}`, i),
			},
		},
		"spec": map[string]any{
			"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "expose": "Internal", "acceptsIncomplete": true,
			"parameters": map[string]any{"maxConnections": int64(120), "ratio": 0.5, "logStatement": "ddl"},
		},
		"status": map[string]any{
			"managed": map[string]any{"clusterStatus": "Running", "readyReplicas": int64(1)}, "conditions": conditions(),
			"gitbind": map[string]any{"uid": "x", "commit": "d0be2dc421be4fcd0172e5afceea3970e2f3d940", "message": "", "conditions": conditions()},
		},
	}}
}

func TestWholeIsWhatWasPacked(t *testing.T) {
	want, u := object(1), object(1)
	for range 2 {
		if err := Pack(u, "labels"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want.GetLabels(), u.GetLabels()); diff != "" {
		t.Errorf("labels in clear: %s", diff)
	}
	if u.GetUID() != want.GetUID() || u.GetAnnotations() != nil || u.Object["spec"] != nil {
		t.Errorf("in clear are %v", u.Object)
	}
	for range 2 {
		got, err := Whole(u)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if got, err := Whole(want); err != nil || got != want {
		t.Errorf("an object that was not packed gives %v, %v", got, err)
	}
	u.Object[field] = "no stream"
	if got, err := Whole(u); err == nil {
		t.Errorf("what is no stream gives %v", got)
	}
}

// A hundred thousand must leave room for all else in 600 MiB.
func TestAPackedObjectTakesLittle(t *testing.T) {
	const n, most = 2000, 1700
	all := make([]*unstructured.Unstructured, n)
	before := heap()
	for i := range all {
		// As an informer gets it.
		data, err := json.Marshal(object(i))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		if err := Pack(u); err != nil {
			t.Fatal(err)
		}
		all[i] = u
	}
	each := (heap() - before) / n
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("a packed object takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(all)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkPack(b *testing.B) {
	for b.Loop() {
		if err := Pack(object(1)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWhole(b *testing.B) {
	u := object(1)
	if err := Pack(u); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Whole(u); err != nil {
			b.Fatal(err)
		}
	}
}
