package protection_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// emergency: who may pass over a review is RBAC on the APIServiceBinding.
func (c cluster) emergency(t *testing.T, bound, other *apiextensionsv1.CustomResourceDefinition) {
	c.T = t
	orders, elsewhere := database(bound, "urgent"), database(other, "urgent")
	c.must(c.Create(t.Context(), orders))
	c.must(c.Create(t.Context(), elsewhere))
	grant := func(name string, rule rbacv1.PolicyRule) {
		c.must(c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}))
		c.must(c.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "dora"}},
		}))
	}
	grant("edits-databases", rbacv1.PolicyRule{APIGroups: []string{bound.Spec.Group, other.Spec.Group}, Resources: []string{"databases"}, Verbs: []string{"*"}})
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "dora"}
	dora, err := client.New(config, client.Options{})
	c.must(err)
	annotated := func(why string) string {
		return `{"metadata":{"annotations":{"` + v1alpha1.EmergencyAnnotation + `":` + why + `}},"spec":{"plan":"big"}}`
	}

	words := []string{"you (dora) may not change claims of " + bound.Name + " without a review", "verb override on apiservicebindings.gitbind.dev " + bound.Name, "the change is proposed"}
	c.eventually(func() error { return says(edit(t.Context(), dora, orders, annotated(`"disk full"`)), words...) })
	born := database(bound, "born-urgent")
	born.SetAnnotations(map[string]string{v1alpha1.EmergencyAnnotation: "disk full"})
	c.must(says(dora.Create(t.Context(), born, client.DryRunAll), words...))
	c.must(edit(t.Context(), dora, orders, `{"spec":{"plan":"big"}}`))

	grant("overrides", rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"apiservicebindings"}, ResourceNames: []string{bound.Name}, Verbs: []string{"override"}})
	c.eventually(func() error { return edit(t.Context(), dora, orders, annotated(`"disk full"`)) })
	c.must(says(edit(t.Context(), dora, elsewhere, annotated(`"disk full"`)), "claims of "+other.Name))

	// Anybody who changes or unmarks what somebody else has marked need not have the right.
	c.must(c.Patch(t.Context(), orders.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(annotated(`"disk full"`)))))
	c.must(c.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "overrides"}}))
	c.eventually(func() error { return says(edit(t.Context(), dora, orders, annotated(`"another reason"`)), words...) })
	c.must(edit(t.Context(), dora, orders, `{"spec":{"plan":"small"}}`))
	c.must(edit(t.Context(), dora, orders, annotated("null")))
}
