package evaluator

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"gitbind.dev/gitbridge/contract"
)

// match is a compiled MatchResources.
type match struct {
	*admissionv1.MatchResources
	namespaces, objects labels.Selector
}

// newMatch compiles m, and says what of it not every gate knows. It is nil for nil.
func newMatch(m *admissionv1.MatchResources, say func(field, format string, args ...any)) *match {
	if m == nil {
		return nil
	}
	out := &match{MatchResources: m, namespaces: labels.Everything(), objects: labels.Everything()}
	selector := func(field string, from *metav1.LabelSelector) labels.Selector {
		s, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			say(field, "%s", oneLine(err))
			return labels.Everything()
		}
		return s
	}
	out.namespaces = selector("namespaceSelector", m.NamespaceSelector)
	out.objects = selector("objectSelector", m.ObjectSelector)
	for _, key := range keys(out.namespaces) {
		if key != namespaceName {
			say("namespaceSelector", "asks for the label %s: of a namespace, every gate knows only its name, which is the label %s", key, namespaceName)
		}
	}
	for _, key := range keys(out.objects) {
		if !contract.MayTravel(key) {
			say("objectSelector", "asks for the label %s, which belongs to a tool or a server and is never in Git", key)
		}
	}
	scopes(m.ResourceRules, "resourceRules", say)
	scopes(m.ExcludeResourceRules, "excludeResourceRules", say)
	if *m.MatchPolicy != admissionv1.Exact {
		versions(m.ResourceRules, "resourceRules", say)
		versions(m.ExcludeResourceRules, "excludeResourceRules", say)
	}
	return out
}

// namespaceName is the label with its name that each namespace has.
const namespaceName = "kubernetes.io/metadata.name"

func keys(s labels.Selector) []string {
	var out []string
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		out = append(out, r.Key())
	}
	return out
}

// scopes refuses rules with a scope that there is not, as an API server does: they would
// match nothing.
func scopes(named []admissionv1.NamedRuleWithOperations, field string, say func(field, format string, args ...any)) {
	for _, rule := range named {
		if !slices.Contains([]admissionv1.ScopeType{admissionv1.NamespacedScope, admissionv1.ClusterScope, admissionv1.AllScopes}, *rule.Scope) {
			say(field, "has the scope %q: want Namespaced, Cluster or *", *rule.Scope)
		}
	}
}

// versions refuses rules that name some versions of an API: which others are
// equivalent to them is known only to the API server that serves them.
func versions(named []admissionv1.NamedRuleWithOperations, field string, say func(field, format string, args ...any)) {
	for _, rule := range named {
		if !slices.Contains(rule.APIVersions, "*") {
			say(field, `names the versions %q: with matchPolicy Equivalent an API server converts others to them; write apiVersions: ["*"], or matchPolicy: Exact`, rule.APIVersions)
		}
	}
}

// matches is what an API server's matcher does. A namespaceSelector leaves no
// cluster-scoped object out.
func (m *match) matches(a admission.Attributes) bool {
	if m == nil {
		return true
	}
	if ns := a.GetNamespace(); ns != "" && !m.namespaces.Matches(labels.Set{namespaceName: ns}) {
		return false
	}
	// The error is the selector's, which was parsed.
	if ok, _ := (&object.Matcher{}).MatchObjectSelector(m, a); !ok {
		return false
	}
	if matchesRule(m.ExcludeResourceRules, a) {
		return false
	}
	return len(m.ResourceRules) == 0 || matchesRule(m.ResourceRules, a)
}

// covers reports whether the rules match any object of a resource: a has no name.
func (m *match) covers(a admission.Attributes) bool {
	if m == nil {
		return true
	}
	return !matchesRule(m.ExcludeResourceRules, a) && (len(m.ResourceRules) == 0 || slices.ContainsFunc(m.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		r.ResourceNames = nil
		return matchesRule([]admissionv1.NamedRuleWithOperations{r}, a)
	}))
}

// GetParsedObjectSelector makes a match what the API server's matcher takes.
func (m *match) GetParsedObjectSelector() (labels.Selector, error) { return m.objects, nil }

func matchesRule(named []admissionv1.NamedRuleWithOperations, a admission.Attributes) bool {
	return slices.ContainsFunc(named, func(r admissionv1.NamedRuleWithOperations) bool {
		m := rules.Matcher{Rule: r.RuleWithOperations, Attr: a}
		return m.Matches() && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.GetName()))
	})
}
