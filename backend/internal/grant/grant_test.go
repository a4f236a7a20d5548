package grant

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestOffered(t *testing.T) {
	api := v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "dbs"}
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	named := Rule(api)
	named.ResourceNames = []string{"one"}
	for _, c := range []struct {
		name  string
		rules []rbacv1.PolicyRule
		want  bool
	}{
		{"nothing", nil, false},
		{"just that", []rbacv1.PolicyRule{Rule(api)}, true},
		{"all verbs", []rbacv1.PolicyRule{rule("example.com", "dbs", "*")}, true},
		{"all resources of the group", []rbacv1.PolicyRule{rule("example.com", "*", "*")}, true},
		{"in two rules", []rbacv1.PolicyRule{rule("example.com", "dbs", "get", "list", "watch"), rule("example.com", "dbs", "create", "update", "patch", "delete")}, true},
		{"read only", []rbacv1.PolicyRule{rule("example.com", "dbs", "get", "list", "watch")}, false},
		{"another group", []rbacv1.PolicyRule{rule("example.org", "dbs", "*")}, false},
		{"another resource", []rbacv1.PolicyRule{rule("example.com", "caches", "*")}, false},
		{"a subresource", []rbacv1.PolicyRule{rule("example.com", "dbs/status", "*")}, false},
		{"one object", []rbacv1.PolicyRule{named}, false},
	} {
		if got := Offered(c.rules, api); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
