package bound

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// match is what a policy and its binding match of the bound API, nil for nothing. Group,
// resource and scope are the API's in every rule.
func (a API) match(policy, binding *admissionv1.MatchResources, operations []admissionv1.OperationType) *admissionv1.MatchResources {
	if policy == nil {
		return nil
	}
	all := []admissionv1.NamedRuleWithOperations{a.rule(operations, []string{anything}, nil)}
	out := &admissionv1.MatchResources{
		// The API has one version that is served, so there is nothing to convert.
		MatchPolicy:       new(admissionv1.Exact),
		NamespaceSelector: both(policy.NamespaceSelector, nil),
		ObjectSelector:    both(policy.ObjectSelector, nil),
	}
	out.ResourceRules = a.intersect(all, policy.ResourceRules)
	out.ExcludeResourceRules = a.intersect(all, policy.ExcludeResourceRules)
	if binding != nil {
		if len(binding.ResourceRules) > 0 {
			out.ResourceRules = a.intersect(out.ResourceRules, binding.ResourceRules)
		}
		out.ExcludeResourceRules = append(out.ExcludeResourceRules, a.intersect(all, binding.ExcludeResourceRules)...)
		out.NamespaceSelector = both(out.NamespaceSelector, binding.NamespaceSelector)
		out.ObjectSelector = both(out.ObjectSelector, binding.ObjectSelector)
	}
	if len(out.ResourceRules) == 0 {
		return nil
	}
	return out
}

// anything stands in a rule for all there are.
const anything = "*"

func (a API) rule(operations []admissionv1.OperationType, versions, names []string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{
		ResourceNames: names,
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionv1.Rule{
				APIGroups: []string{a.Group}, APIVersions: versions, Resources: []string{a.Plural}, Scope: new(admissionv1.NamespacedScope),
			},
		},
	}
}

// intersect is what rules of the API have in common with others.
func (a API) intersect(ours, others []admissionv1.NamedRuleWithOperations) []admissionv1.NamedRuleWithOperations {
	var out []admissionv1.NamedRuleWithOperations
	for _, o := range ours {
		for _, r := range others {
			operations, versions := common(o.Operations, r.Operations, admissionv1.OperationAll), common(o.APIVersions, r.APIVersions, anything)
			names := common(o.ResourceNames, r.ResourceNames, "")
			switch {
			case !a.covered(r.Rule), len(operations) == 0, len(versions) == 0:
			case len(o.ResourceNames) == 0:
				out = append(out, a.rule(operations, versions, r.ResourceNames))
			case len(r.ResourceNames) == 0:
				out = append(out, a.rule(operations, versions, o.ResourceNames))
			case len(names) > 0:
				out = append(out, a.rule(operations, versions, names))
			}
		}
	}
	return out
}

// common are the elements that are in both, where all stands for each.
func common[T comparable](a, b []T, all T) []T {
	switch {
	case slices.Contains(b, all):
		return a
	case slices.Contains(a, all):
		return b
	}
	return slices.DeleteFunc(slices.Clone(a), func(e T) bool { return !slices.Contains(b, e) })
}

// covered tells whether a rule is about the bound API itself.
func (a API) covered(r admissionv1.Rule) bool {
	has := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(list, w) })
	}
	return has(r.APIGroups, anything, a.Group) && has(r.Resources, anything, a.Plural, "*/*", a.Plural+"/*") &&
		(r.Scope == nil || *r.Scope != admissionv1.ClusterScope)
}

// both selects what two selectors do; nil selects everything.
func both(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, s := range []*metav1.LabelSelector{a, b} {
		if s == nil {
			continue
		}
		out.MatchExpressions = append(out.MatchExpressions, s.MatchExpressions...)
		keys := make([]string, 0, len(s.MatchLabels))
		for key := range s.MatchLabels {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{s.MatchLabels[key]},
			})
		}
	}
	return out
}
