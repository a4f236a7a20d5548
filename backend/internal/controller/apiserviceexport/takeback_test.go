package apiserviceexport

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// The right to bind comes before the export, which the cache may not know of yet.
func TestARightToBindGoesWhenTheAPIServerHasNoExport(t *testing.T) {
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "k3x9d2abqw"}}
	there := export("as")
	there.Namespace, there.Spec.Template = v1alpha1.TenantNamespace(cb.Name), "a"
	api := fakeapi.New(fakeapi.Builder().WithObjects(&there, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantBindRole(cb.Name)}, Rules: grant.BindRules([]string{"a", "b"}),
	}))
	r := &Reconciler{Client: api, Live: api}
	if err := r.takeBack(t.Context(), cb, nil); err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.TenantBindRole(cb.Name)}, &role); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, grant.BindTemplates(role.Rules)); diff != "" {
		t.Error(diff)
	}
}
