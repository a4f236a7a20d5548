package bound

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// parameters are those of one binding, as a part of the policy: so the API server need
// read no object of another kind, on which the konnector would need rights, and nobody
// in the app cluster can change what the platform says.
type parameters struct {
	// source is an expression of the object that is params; "" for a policy without any.
	source string
	// namespaces are those of claims for which there is one; nil for all.
	namespaces []string
	// deny says what becomes of claims without any.
	deny bool
}

// missing says that there is no parameter for any claim.
func (p parameters) missing() bool { return p.namespaces != nil && len(p.namespaces) == 0 }

// parametersOf finds them by the API server's rules, as policies/evaluator does.
func parametersOf(policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding, objects []*unstructured.Unstructured) (p parameters, err error) {
	kind, ref := policy.Spec.ParamKind, binding.Spec.ParamRef
	switch {
	case kind == nil:
		return p, nil
	case ref == nil:
		return parameters{source: literal(nil)}, nil
	}
	// Where that cannot be configured, failurePolicy Ignore ignores it.
	p.deny = ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction && *policy.Spec.FailurePolicy == admissionv1.Fail
	selector := labels.Everything()
	if ref.Selector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			return p, fmt.Errorf("its paramRef.selector is invalid: %w", err)
		}
	}
	namespaced := ref.Namespace != "" || kind.Kind == "ConfigMap" && kind.APIVersion == "v1"
	byNamespace := map[string][]*unstructured.Unstructured{}
	for _, o := range objects {
		if o.GroupVersionKind() != schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind) {
			continue
		}
		namespaced = namespaced || o.GetNamespace() != ""
		if (ref.Name == "" || o.GetName() == ref.Name) && selector.Matches(labels.Set(o.GetLabels())) {
			byNamespace[o.GetNamespace()] = append(byNamespace[o.GetNamespace()], o)
		}
	}
	if namespaced && ref.Namespace == "" {
		var entries []string
		p.namespaces = slices.Sorted(maps.Keys(byNamespace))
		for _, ns := range p.namespaces {
			one, err := only(byNamespace[ns])
			if err != nil {
				return p, err
			}
			entries = append(entries, quote(ns)+": "+one)
		}
		p.source = "{" + strings.Join(entries, ", ") + "}[request.namespace]"
		if p.namespaces == nil {
			p.namespaces = []string{}
		}
		return p, nil
	}
	found := byNamespace[ref.Namespace]
	if len(found) == 0 {
		p.namespaces = []string{}
		return p, nil
	}
	p.source, err = only(found)
	return p, err
}

func only(found []*unstructured.Unstructured) (string, error) {
	if len(found) > 1 {
		return "", fmt.Errorf("it has several parameters for one claim: %s and %s", found[0].GetName(), found[1].GetName())
	}
	return literal(found[0].Object), nil
}

// literal writes a value of JSON in CEL. In a list or map of CEL all values have one type,
// which dyn hides.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "dyn(null)"
	case string:
		return "dyn(" + quote(v) + ")"
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return "dyn(" + s + ")"
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, literal(e))
		}
		return "dyn([" + strings.Join(all, ", ") + "])"
	case map[string]any:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, quote(key)+": "+literal(v[key]))
		}
		return "dyn({" + strings.Join(all, ", ") + "})"
	default:
		return fmt.Sprintf("dyn(%v)", v) // a number or a boolean
	}
}

// quote writes a string of CEL, whose escapes are Go's.
func quote(s string) string { return strconv.QuoteToASCII(s) }
