package exportedapi

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/test/fakeapi"
)

func TestBoundAreTheResourcesOfOurExports(t *testing.T) {
	t.Parallel()
	objects := fakeapi.Builder()
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

// Claims ask for a definition one by one, and one may be large.
func TestADefinitionThatCannotBeUsedIsReadOnce(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "nodes.example.org", UID: "u1"}}
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	e := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "gb-ours", Name: crd.Name}}
	e.Spec.API = v1alpha1.ExportedAPI{Group: "example.org", Version: "v1", Resource: "nodes"}
	e.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
	reads := 0
	c := fakeapi.New(fakeapi.Builder().WithObjects(crd, e), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
				reads++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	r := &Resolver{Cache: c, Server: c}
	revisions := map[string]bool{}
	look := func(why string, want int) {
		t.Helper()
		api, err := r.Resolve(t.Context(), "gb-ours", crd.Name)
		if err != nil || api.Access != decision.NotServed || !strings.Contains(api.Why, why) || reads != want {
			t.Errorf("%+v after %d reads, %v", api, reads, err)
		}
		revisions[api.Revision()] = true
	}
	look("not namespaced", 1)
	look("not namespaced", 1)
	crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	if err := c.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	look("does not serve version v1", 2)
	if len(revisions) != 2 {
		t.Errorf("claims are not looked at where it is another reason: %v", revisions)
	}
}
