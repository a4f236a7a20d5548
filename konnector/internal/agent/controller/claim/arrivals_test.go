package claim

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/base"
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
	a.Create(t.Context(), event.CreateEvent{Object: &cachedClaim{ObjectMeta: metav1.ObjectMeta{Name: "agreed"}, reduced: true, base: base.NewCompact("x", "u")}, IsInInitialList: true}, q)
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
