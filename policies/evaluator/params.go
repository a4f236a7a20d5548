package evaluator

import (
	"errors"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// params finds the parameters of a binding.
type params struct {
	ref        *admissionv1.ParamRef
	selector   labels.Selector
	objects    []*unstructured.Unstructured
	namespaced bool
}

// params of a binding are nil when its policy has none, or it names none.
func (c *compiler) params(kind *admissionv1.ParamKind, ref *admissionv1.ParamRef, say func(field, format string, args ...any)) *params {
	if kind == nil || ref == nil {
		return nil
	}
	p := &params{ref: ref, namespaced: ref.Namespace != "" || kind.Kind == "ConfigMap" && kind.APIVersion == "v1"}
	switch {
	case (ref.Name == "") == (ref.Selector == nil):
		say("spec.paramRef", "want either name or selector")
	case ref.ParameterNotFoundAction == nil:
		say("spec.paramRef.parameterNotFoundAction", "is missing: want Allow or Deny")
	}
	var err error
	if ref.Selector != nil {
		if p.selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			say("spec.paramRef.selector", "%s", oneLine(err))
		}
	}
	for _, from := range c.manifests.params {
		u := from.object
		if u.GroupVersionKind() != kindOf(kind) {
			continue
		}
		p.objects = append(p.objects, u)
		p.namespaced = p.namespaced || u.GetNamespace() != ""
		if p.namespaced && u.GetNamespace() == "" {
			c.problem(from.at, "metadata", "%s %s has no metadata.namespace, by which its policies find it", u.GetKind(), u.GetName())
		}
	}
	return p
}

var (
	errNoParams    = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	errNoNamespace = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
)

// of are the parameters for an object of a namespace, "" for a cluster-scoped one; one
// nil when there are none by intention.
func (p *params) of(namespace string) ([]runtime.Object, error) {
	if p == nil {
		return []runtime.Object{nil}, nil
	}
	if p.ref.Namespace != "" {
		namespace = p.ref.Namespace
	}
	if p.namespaced && namespace == "" {
		return nil, errNoNamespace
	}
	var out []runtime.Object
	for _, u := range p.objects {
		switch {
		case p.namespaced && u.GetNamespace() != namespace:
		case p.ref.Name != "" && u.GetName() != p.ref.Name:
		case p.selector != nil && !p.selector.Matches(labels.Set(u.GetLabels())):
		default:
			out = append(out, u)
		}
	}
	if len(out) == 0 && p.ref.ParameterNotFoundAction != nil && *p.ref.ParameterNotFoundAction == admissionv1.DenyAction {
		return nil, errNoParams
	}
	return out, nil
}
