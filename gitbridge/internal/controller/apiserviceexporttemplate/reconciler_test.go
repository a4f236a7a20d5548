package apiserviceexporttemplate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// Bridges of all shards judge each template, at times of their own.
func TestBridgesOfManyShardsJudgeATemplateOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	template := &v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.net"}}
	template.Spec.Transform = &v1alpha1.Transform{}
	c := fakeapi.New(fakeapi.Builder().WithScheme(scheme).WithObjects(template).WithStatusSubresource(template))
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	version := ""
	for range 3 {
		now = now.Add(time.Minute)
		r := &Reconciler{Client: c, Now: func() time.Time { return now }}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)}); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.APIServiceExportTemplate
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(template), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Status.Conditions) != 1 || version != "" && got.ResourceVersion != version {
			t.Errorf("written again: %s, %+v", got.ResourceVersion, got.Status)
		}
		version = got.ResourceVersion
	}
}
