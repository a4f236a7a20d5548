package fakeapi

import (
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Allows reports whether RBAC rules of a namespace, without wildcards, let who has them do
// what is asked in it.
func Allows(rules []rbacv1.PolicyRule, a *authorizationv1.ResourceAttributes) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, a.Verb) && slices.Contains(r.APIGroups, a.Group) && slices.Contains(r.Resources, a.Resource) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
	})
}
