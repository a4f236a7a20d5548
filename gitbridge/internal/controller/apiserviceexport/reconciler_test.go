package apiserviceexport

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/test/fakeapi"
)

// granted are exports that come to nothing but that they are granted.
type granted struct{}

func (granted) Export(context.Context, *v1alpha1.APIServiceExport) (exportedapi.API, error) {
	return exportedapi.API{Access: decision.Granted}, nil
}

// counted counts what is read from an API server.
type counted struct {
	client.Reader
	gets int
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.gets++
	return c.Reader.Get(ctx, key, o, opts...)
}

// At a start, each export is looked at before its repository is followed, and again then.
func TestAnExportThatWasPublishedIsNotReadBeforeItsRepositoryIsFollowed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"published": 0, "new": 1} {
		e := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "gb-a", Name: name}}
		if name == "published" {
			meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPublished, Status: metav1.ConditionTrue, Reason: "Published"})
		}
		c := fakeapi.New(fakeapi.Builder().WithScheme(scheme).WithObjects(e).WithStatusSubresource(e))
		server := &counted{Reader: c}
		r := &Reconciler{
			Client: c, Server: server, Exports: granted{}, Sessions: &session.Registry{}, IsOurs: func(string) bool { return true },
			published: map[types.NamespacedName]string{},
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e)}); err != nil || server.gets != want {
			t.Errorf("%s: %d reads, want %d, %v", name, server.gets, want, err)
		}
	}
}

// What is used changes with each claim, and has nothing to do with what is published in Git.
func TestAnUpdateOfTheUsageAloneIsPassedOver(t *testing.T) {
	was := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}, Spec: v1alpha1.APIServiceExportSpec{Template: "a"}}
	for name, c := range map[string]struct {
		change func(e *v1alpha1.APIServiceExport)
		want   bool
	}{
		"the usage":             {func(e *v1alpha1.APIServiceExport) { e.Status.Quota = &v1alpha1.QuotaUsage{Claims: 1} }, true},
		"what is not kept here": {func(*v1alpha1.APIServiceExport) {}, false},
		"the usage, and more": {func(e *v1alpha1.APIServiceExport) {
			e.Status.Quota = &v1alpha1.QuotaUsage{Claims: 1}
			meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionGranted, Status: metav1.ConditionTrue, Reason: "Granted"})
		}, false},
	} {
		is := was.DeepCopy()
		is.ResourceVersion = "2"
		c.change(is)
		if got := isOnlyUsage(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
