package apiservicebinding

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/test/fakeapi"
)

// Kubernetes deletes each binding when the definition of bindings is deleted, and what
// has owners when these are gone. Only a person's delete approves removals.
func TestL2_OnlyAPersonsDeleteApprovesRemovals(t *testing.T) {
	t.Parallel()
	deleted := time.Now().Truncate(time.Second)
	for name, tc := range map[string]struct {
		change func(*metav1.ObjectMeta, *v1alpha1.APIServiceBinding, *look)
		want   bool
	}{
		"a person":                    {func(*metav1.ObjectMeta, *v1alpha1.APIServiceBinding, *look) {}, true},
		"the file went":               {func(_ *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, l *look) { l.file = nil }, false},
		"the file went and came back": {func(_ *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, l *look) { l.facts.BaseRemoved = true }, false},
		"with an owner": {func(_ *metav1.ObjectMeta, b *v1alpha1.APIServiceBinding, _ *look) {
			b.OwnerReferences = []metav1.OwnerReference{{UID: "gone"}}
		}, false},
		"with its definition": {func(crd *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, _ *look) {
			crd.DeletionTimestamp = &metav1.Time{Time: deleted}
		}, false},
		"with a definition that is gone": {func(crd *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, _ *look) { crd.Name = "others.gitbind.dev" }, false},
		"with the definition before": {func(crd *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, _ *look) {
			crd.CreationTimestamp = metav1.Time{Time: deleted.Add(time.Second)}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
				Name: "apiservicebindings.gitbind.dev", Finalizers: []string{"customresourcecleanup.apiextensions.k8s.io"},
				CreationTimestamp: metav1.Time{Time: deleted.Add(-time.Hour)},
			}}
			b := &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: binding, DeletionTimestamp: &metav1.Time{Time: deleted}}}
			l := &look{binding: b, file: &store.Entry{}}
			tc.change(&crd.ObjectMeta, b, l)
			scheme := runtime.NewScheme()
			if err := apiextensionsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{Live: fakeapi.New(fakeapi.Builder().WithScheme(scheme).WithObjects(crd))}
			if got, err := r.deletedByPerson(t.Context(), l); err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
