package evaluator

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
)

// A policy with this label and value is judged by API servers only, at admission. It may
// use all that they know, and the other gates leave it out.
const (
	GateLabel     = "gitbind.dev/gate"
	AdmissionOnly = "Admission"
)

// File is a file with manifests, one or several, in YAML or JSON.
type File struct {
	// Name is how problems call the file.
	Name string
	Data []byte
	// Before is the number of lines that are above Data, where it is a part of the file.
	Before int
}

// Manifests are what a Set is made of. Parse fills in the defaults of an API server.
type Manifests struct {
	policies []located[*admissionv1.ValidatingAdmissionPolicy]
	bindings []located[*admissionv1.ValidatingAdmissionPolicyBinding]
	// params are all other objects: those of a policy's paramKind are its parameters.
	params []located[*unstructured.Unstructured]
}

// Policies are those that were read.
func (m *Manifests) Policies() []*admissionv1.ValidatingAdmissionPolicy { return objects(m.policies) }

// Bindings are those that were read.
func (m *Manifests) Bindings() []*admissionv1.ValidatingAdmissionPolicyBinding {
	return objects(m.bindings)
}

// Others are all other objects that were read, parameters among them.
func (m *Manifests) Others() []*unstructured.Unstructured { return objects(m.params) }

func objects[T any](from []located[T]) []T {
	out := make([]T, len(from))
	for i, l := range from {
		out[i] = l.object
	}
	return out
}

// located is an object with the place where it was read.
type located[T any] struct {
	object T
	// at is the one document that it was read from.
	at File
}

// Problems are why manifests are refused, all of them.
type Problems []*contract.Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b *contract.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return p
}

// problem is what is wrong with a field of a document.
func (d File) problem(field, format string, args ...any) *contract.Problem {
	line := contract.LineOf(d.Data, field)
	if line == 0 {
		line = contract.LineOf(d.Data, "kind")
	}
	return &contract.Problem{File: d.Name, Line: d.Before + max(line, 1), Reason: fmt.Sprintf(format, args...)}
}

const (
	group       = "admissionregistration.k8s.io"
	policyKind  = "ValidatingAdmissionPolicy"
	bindingKind = "ValidatingAdmissionPolicyBinding"
)

// Parse reads the manifests of files. Its error is Problems.
func Parse(files ...File) (*Manifests, error) {
	m := &Manifests{}
	var problems Problems
	for _, f := range files {
		for _, d := range Documents(f) {
			if p := m.add(d); p != nil {
				problems = append(problems, p)
			}
		}
	}
	return m, problems.orNil()
}

// separator ends where the next document begins, which may be on the same line.
var separator = regexp.MustCompile(`(?m)^---([ \t]|\r?$)`)

// Documents are the YAML documents of a file that hold something.
func Documents(f File) []File {
	var out []File
	begin := 0
	for _, at := range append(separator.FindAllIndex(f.Data, -1), []int{len(f.Data), len(f.Data)}) {
		d := File{Name: f.Name, Data: f.Data[begin:at[0]], Before: f.Before + bytes.Count(f.Data[:begin], []byte("\n"))}
		begin = at[1]
		if strings.TrimSpace(comment.ReplaceAllString(string(d.Data), "")) != "" {
			out = append(out, d)
		}
	}
	return out
}

var comment = regexp.MustCompile(`(?m)^\s*#.*$`)

// add reads one document.
func (m *Manifests) add(d File) *contract.Problem {
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSONStrict(d.Data)
	switch {
	case err != nil:
		return d.problem("", "is not valid YAML: %s", oneLine(err))
	case u.UnmarshalJSON(data) != nil || u.GetAPIVersion() == "":
		return d.problem("", "is no Kubernetes object: it has no apiVersion or no kind")
	}
	gvk := u.GroupVersionKind()
	switch {
	case u.IsList():
		return d.problem("kind", "is a %s: write each object as a document of its own", gvk.Kind)
	case gvk.Kind == "Kustomization" && gvk.Group == "kustomize.config.k8s.io":
		return nil
	case gvk.Group != group:
		m.params = append(m.params, located[*unstructured.Unstructured]{u, d})
		return nil
	case gvk.Version != "v1":
		return d.problem("apiVersion", "apiVersion is %s: write %s/v1", u.GetAPIVersion(), group)
	}
	switch gvk.Kind {
	case policyKind:
		p := &admissionv1.ValidatingAdmissionPolicy{}
		if err := decode(data, p); err != nil {
			return d.problem("", "%s %s: %s", gvk.Kind, u.GetName(), oneLine(err))
		}
		defaultPolicy(p)
		m.policies = append(m.policies, located[*admissionv1.ValidatingAdmissionPolicy]{p, d})
	case bindingKind:
		b := &admissionv1.ValidatingAdmissionPolicyBinding{}
		if err := decode(data, b); err != nil {
			return d.problem("", "%s %s: %s", gvk.Kind, u.GetName(), oneLine(err))
		}
		defaultMatch(b.Spec.MatchResources)
		m.bindings = append(m.bindings, located[*admissionv1.ValidatingAdmissionPolicyBinding]{b, d})
	default:
		return d.problem("kind", "is a %s: only %s and %s are evaluated", gvk.Kind, policyKind, bindingKind)
	}
	return nil
}

// decode reads JSON as an API server does, which takes no field that it does not know.
func decode(data []byte, into any) error {
	strict, err := json.UnmarshalStrict(data, into)
	return errors.Join(append(strict, err)...)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// defaultPolicy fills in what an API server would.
func defaultPolicy(p *admissionv1.ValidatingAdmissionPolicy) {
	if p.Spec.FailurePolicy == nil {
		p.Spec.FailurePolicy = new(admissionv1.Fail)
	}
	defaultMatch(p.Spec.MatchConstraints)
}

func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	if m.MatchPolicy == nil {
		m.MatchPolicy = new(admissionv1.Equivalent)
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				rules[i].Scope = new(admissionv1.AllScopes)
			}
		}
	}
}
