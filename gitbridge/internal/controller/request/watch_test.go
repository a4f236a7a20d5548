package request

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const id = "k3x9d2abqwertzui"

// whose is the cluster that requests are of, "all", or "" for none.
func whose(requests []reconcile.Request) string {
	switch {
	case len(requests) == 0:
		return ""
	case requests[0] == reconcile.Request{}:
		return "all"
	}
	return requests[0].Namespace
}

func TestOnlyRolesOfOffersConcernRequests(t *testing.T) {
	rule := func(group, resource, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"secrets", resource}, Verbs: []string{"get", verb}}
	}
	for _, c := range []struct {
		name string
		rule rbacv1.PolicyRule
		want string
	}{
		{"bind-postgresql", rule("gitbind.dev", "apiserviceexporttemplates", "bind"), "all"},
		{"admin", rule("*", "*", "*"), "all"},
		{"offers", rule("gitbind.dev", "*", "bind"), "all"},
		{"view", rule("gitbind.dev", "apiserviceexporttemplates", "list"), ""},
		{"binds-roles", rule("rbac.authorization.k8s.io", "clusterroles", "bind"), ""},
		{"crossplane", rule("example.org", "*", "*"), ""},
		{"gitbind:tenant:" + id + ":bind", rule("gitbind.dev", "apiserviceexporttemplates", "bind"), id},
		{"gitbind:tenant:" + id, rule("*", "*", "*"), ""},
	} {
		o := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/x"}, Verbs: []string{"*"}}, c.rule}}
		if got := whose(ofRole(t.Context(), o)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOnlyBindingsOfTenantsConcernRequests(t *testing.T) {
	for _, c := range []struct {
		subject rbacv1.Subject
		want    string
	}{
		{rbacv1.Subject{Kind: "ServiceAccount", Namespace: "gb-" + id, Name: "gitbind-tenant"}, id},
		{rbacv1.Subject{Kind: "ServiceAccount", Namespace: "gb-" + id, Name: "default"}, ""},
		{rbacv1.Subject{Kind: "ServiceAccount", Namespace: "crossplane-system", Name: "gitbind-tenant"}, ""},
		{rbacv1.Subject{Kind: "User", Name: "system:serviceaccount:gb-" + id + ":gitbind-tenant"}, id},
		{rbacv1.Subject{Kind: "User", Name: "alice"}, ""},
		{rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:gb-" + id}, id},
		{rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:default"}, ""},
		{rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts"}, "all"},
		{rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, "all"},
		{rbacv1.Subject{Kind: "Group", Name: "system:masters"}, ""},
	} {
		o := &rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{{Kind: "User", Name: "bob"}, c.subject}}
		if got := whose(ofBinding(t.Context(), o)); got != c.want {
			t.Errorf("%+v: %q, want %q", c.subject, got, c.want)
		}
	}
}

func TestChangesThatConcernAllAreGathered(t *testing.T) {
	var w Watch
	now := time.Now()
	for _, c := range []struct{ at, want time.Duration }{{0, 0}, {rightsDelay / 4, rightsDelay * 3 / 4}, {rightsDelay / 2, rightsDelay / 2}, {rightsDelay, 0}, {rightsDelay + 1, rightsDelay - 1}} {
		if got := w.wait(now.Add(c.at)); got != c.want {
			t.Errorf("after %s: %s, want %s", c.at, got, c.want)
		}
	}
}
