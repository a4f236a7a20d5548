package grant

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

const templates, bindVerb = "apiserviceexporttemplates", "bind"

// BindRules are the rights to bind just these templates.
func BindRules(names []string) []rbacv1.PolicyRule {
	names = slices.Clone(names)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return nil // a rule without names would be of all
	}
	return []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{templates}, ResourceNames: names, Verbs: []string{bindVerb},
	}}
}

// BindTemplates is the inverse of BindRules. It passes over what else somebody
// wrote there.
func BindTemplates(rules []rbacv1.PolicyRule) []string {
	var names []string
	for _, r := range rules {
		if slices.Contains(r.Resources, templates) && slices.Contains(r.Verbs, bindVerb) {
			names = append(names, r.ResourceNames...)
		}
	}
	return names
}
