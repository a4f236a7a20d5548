package exportedapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

func TestBoundAreTheResourcesOfOurExports(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := fakeapi.Builder().WithScheme(scheme)
	for namespace, version := range map[string]string{"gb-ours": "v1", "gb-also-ours": "v2", "gb-other": "v3"} {
		e := &v1alpha1.APIServiceExport{}
		e.Namespace, e.Name = namespace, "postgresqlinstances.anynines.com"
		e.Spec.API = v1alpha1.ExportedAPI{Group: "anynines.com", Version: version, Resource: "postgresqlinstances"}
		objects.WithObjects(e)
	}
	r := &Resolver{Cache: fakeapi.New(objects)}
	got, err := r.Bound(t.Context(), func(namespace string) bool { return namespace != "gb-other" })
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: "anynines.com", Resource: "postgresqlinstances"}
	want := map[schema.GroupVersionResource]bool{}
	for _, resource.Version = range []string{"v1", "v2"} {
		want[resource] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
