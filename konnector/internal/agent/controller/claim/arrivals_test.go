package claim

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/packed"
)

func TestWhatChangedWhileNobodyLookedGoesFirst(t *testing.T) {
	q := priorityqueue.New("test", func(o *priorityqueue.Opts[ctrl.Request]) { o.Log = logr.Discard() })
	defer q.ShutDown()
	object := func(name string, annotations map[string]string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName(name)
		u.SetAnnotations(annotations)
		return u
	}
	a := &arrivals{}
	known := map[string]string{v1alpha1.BaseAnnotation: "x"}
	later(q, ctrl.Request{})
	for i := range 3 {
		a.Create(t.Context(), event.CreateEvent{Object: object(fmt.Sprint("known-", i), known), IsInInitialList: true}, q)
	}
	packedOne := object("known-packed", known)
	if err := packed.Pack(packedOne); err != nil {
		t.Fatal(err)
	}
	a.Create(t.Context(), event.CreateEvent{Object: packedOne, IsInInitialList: true}, q)
	a.Create(t.Context(), event.CreateEvent{Object: object("new", nil), IsInInitialList: true}, q)
	a.Create(t.Context(), event.CreateEvent{Object: object("edited", map[string]string{v1alpha1.BaseAnnotation: "x", v1alpha1.ChangedByAnnotation: "alice"}), IsInInitialList: true}, q)
	first := map[string]bool{}
	for range 2 {
		r, _ := q.Get()
		first[r.Name] = true
	}
	if !first["new"] || !first["edited"] {
		t.Errorf("first come %v", first)
	}
}

// An informer has a large object pass twice on its way into the cache.
func TestWhatIsPackedAlreadyIsNoNews(t *testing.T) {
	large := make([]byte, 128<<20)
	runtime.GC()
	for deadline := time.Now().Add(10 * time.Second); !packed.Needed(); {
		if time.Now().After(deadline) {
			t.Fatal("nothing is packed, though the process is large")
		}
		time.Sleep(time.Millisecond)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "anynines.com/v1", "kind": "PostgresqlInstance",
		"metadata": map[string]any{"name": "known", "annotations": map[string]any{v1alpha1.BaseAnnotation: "x"}, "managedFields": []any{map[string]any{"manager": "x"}}},
	}}
	for range 2 {
		if _, err := ForCache(u); err != nil {
			t.Fatal(err)
		}
	}
	runtime.KeepAlive(large)
	if !packed.Is(u) || u.Object[changedMark] != nil {
		t.Errorf("an object that is in step goes first: %v", u.Object)
	}
	whole, err := packed.Whole(u)
	if err != nil {
		t.Fatal(err)
	}
	if whole.GetManagedFields() != nil || whole.GetAnnotations()[v1alpha1.BaseAnnotation] != "x" {
		t.Errorf("it is kept as %v", whole.Object)
	}
}
