// Package grant says which rights a tenant gets with an API, and whether the
// control plane's operators have given them to the backend to hand on. It is
// pure. It never widens: a right that operators have not offered cannot be
// granted, because the backend itself does not hold it.
package grant

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// verbs are what a tenant may do with its claims.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

// Rule is the right on one API.
func Rule(api v1alpha1.ExportedAPI) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{api.Group}, Resources: []string{api.Resource}, Verbs: slices.Clone(verbs)}
}

// Offered tells whether rules hold all of the right on an API.
func Offered(rules []rbacv1.PolicyRule, api v1alpha1.ExportedAPI) bool {
	for _, verb := range verbs {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return holds(r, api, verb) }) {
			return false
		}
	}
	return true
}

func holds(r rbacv1.PolicyRule, api v1alpha1.ExportedAPI, verb string) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, rbacv1.ResourceAll)
	}
	return len(r.ResourceNames) == 0 && has(r.APIGroups, api.Group) && has(r.Resources, api.Resource) && has(r.Verbs, verb)
}

// NotOffered tells an operator how to offer an API.
func NotOffered(api v1alpha1.ExportedAPI) string {
	return fmt.Sprintf("the backend may not hand on rights on %s: give a ClusterRole the label %s=true and the verbs %s on it",
		api.BindingName(), v1alpha1.LabelOffered, strings.Join(verbs, ", "))
}
