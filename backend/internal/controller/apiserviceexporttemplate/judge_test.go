package apiserviceexporttemplate

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestJudge(t *testing.T) {
	api := v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "dbs"}
	crd := func(change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
		c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "dbs.example.com"}}
		c.Spec.Scope = apiextensionsv1.NamespaceScoped
		c.Spec.Names.Kind = "Database"
		c.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2", Served: true}, {Name: "v0"}}
		c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		change(c)
		return c
	}
	now := metav1.Now()
	fine := func(*apiextensionsv1.CustomResourceDefinition) {}
	rights := []rbacv1.PolicyRule{grant.Rule(api)}
	for _, c := range []struct {
		name    string
		api     v1alpha1.ExportedAPI
		crd     *apiextensionsv1.CustomResourceDefinition
		rights  []rbacv1.PolicyRule
		reason  string
		message string
	}{
		{"fine", api, crd(fine), rights, "Offered", ""},
		{"a claim", api, crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Categories = []string{"claim"} }), rights, "Offered", "can be bound; it is a claim of Crossplane"},
		{"a composite", api, crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Categories = []string{"composite"} }), rights, "Offered", "can be bound; it is a namespaced composite of Crossplane"},
		{"not there", api, nil, rights, "NotInstalled", "install the API"},
		{"cluster-scoped", api, crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Scope = apiextensionsv1.ClusterScoped }), rights, "NotNamespaced", "cluster-scoped"},
		{"on its way out", api, crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.DeletionTimestamp = &now }), rights, "Terminating", "being deleted"},
		{"not established", api, crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.Conditions = nil }), rights, "NotEstablished", "see its conditions"},
		{"another version", v1alpha1.ExportedAPI{Group: "example.com", Version: "v3", Resource: "dbs"}, crd(fine), rights, "VersionNotServed", "but in v1, v2"},
		{"a version that is not served", v1alpha1.ExportedAPI{Group: "example.com", Version: "v0", Resource: "dbs"}, crd(fine), rights, "VersionNotServed", "but in v1, v2"},
		{"fields beside spec and status", api, crd(func(c *apiextensionsv1.CustomResourceDefinition) {
			fields := map[string]apiextensionsv1.JSONSchemaProps{"spec": {}, "status": {}, "kind": {}, "apiVersion": {}, "metadata": {}, "type": {}, "data": {}}
			c.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Properties: fields}}
		}), rights, "NotCarried", "data, type"},
		{"without rights", api, crd(fine), nil, "NotAllowed", "gitbind.dev/offered=true"},
	} {
		got, kind := judge(c.api, c.crd, c.rights)
		if got.Reason != c.reason || (got.Status == metav1.ConditionTrue) != (c.reason == "Offered") || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if want := map[bool]string{true: "", false: "Database"}[c.crd == nil]; kind != want {
			t.Errorf("%s: kind %q, want %q", c.name, kind, want)
		}
	}
}
