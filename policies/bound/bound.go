package bound

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/evaluator"
)

// API is what policies are bound to.
type API struct {
	Group, Plural string
	// Keys are the labels and annotations that travel beside the usual.
	Keys contract.Keys
}

// Policy is one that judges claims of the API, and nothing else.
type Policy struct {
	// Name is that of the offer's policy.
	Name string
	Spec admissionv1.ValidatingAdmissionPolicySpec
}

// Konnector is the user that writes to an app cluster what comes from Git.
const Konnector = "system:serviceaccount:gitbind-system:konnector"

// Policies are one for each binding that denies, in the order of their names, as far as
// they are about the API. Left says of which there are none, and why.
func (a API) Policies(m *evaluator.Manifests) (out []Policy, left []string) {
	policies, bindings := m.Policies(), m.Bindings()
	slices.SortStableFunc(policies, func(a, b *admissionv1.ValidatingAdmissionPolicy) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(bindings, func(a, b *admissionv1.ValidatingAdmissionPolicyBinding) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range policies {
		operations := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
		if p.Labels[evaluator.GateLabel] == evaluator.AdmissionOnly {
			operations = append(operations, admissionv1.Delete)
		}
		isAbout := false
		for _, b := range bindings {
			if b.Spec.PolicyName != p.Name {
				continue
			}
			match := a.match(p.Spec.MatchConstraints, b.Spec.MatchResources, operations)
			if match == nil {
				continue
			}
			isAbout = true
			switch {
			case !slices.Contains(b.Spec.ValidationActions, admissionv1.Deny):
				left = append(left, fmt.Sprintf("%s: its binding %s denies nothing", p.Name, b.Name))
				continue
			case len(out) == Places:
				left = append(left, fmt.Sprintf("%s: a cluster has room for %d policies of an offer", p.Name, Places))
				continue
			}
			params, err := parametersOf(p, b, m.Others())
			switch {
			case err != nil:
				left = append(left, fmt.Sprintf("%s: %s", p.Name, err))
			case !params.missing() || params.deny:
				out = append(out, Policy{Name: p.Name, Spec: a.spec(&p.Spec, match, params)})
			}
		}
		if !isAbout {
			left = append(left, fmt.Sprintf("%s: by its rules and bindings it is not about %s.%s", p.Name, a.Plural, a.Group))
		}
	}
	return out, left
}

// spec has of a policy what is listed here, so that nothing else comes along.
func (a API) spec(p *admissionv1.ValidatingAdmissionPolicySpec, match *admissionv1.MatchResources, params parameters) admissionv1.ValidatingAdmissionPolicySpec {
	w := writer{parameters: params, variable: free("params", p.Variables)}
	out := admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    new(*p.FailurePolicy),
		MatchConstraints: match,
		MatchConditions: []admissionv1.MatchCondition{
			// What comes from Git the bridge judges: a second verdict here would keep the
			// answer, and what was there before the policy, from arriving.
			{Name: "gitbind.dev/not-the-konnector", Expression: "request.userInfo.username != " + quote(Konnector)},
			{Name: "gitbind.dev/changed", Expression: a.changed()},
		},
	}
	if params.missing() {
		out.Validations = []admissionv1.Validation{{Expression: "false", Message: notFound}}
		return out
	}
	if params.namespaces != nil {
		if params.deny {
			out.Validations = append(out.Validations, admissionv1.Validation{Expression: w.found(), Message: notFound})
		} else {
			out.MatchConditions = append(out.MatchConditions, admissionv1.MatchCondition{Name: "gitbind.dev/has-parameters", Expression: w.found()})
		}
	}
	for _, c := range p.MatchConditions {
		// Conditions are evaluated before variables.
		out.MatchConditions = append(out.MatchConditions, admissionv1.MatchCondition{Name: c.Name, Expression: w.guard(w.with(params.source, c.Expression))})
	}
	if params.source != "" {
		out.Variables = append(out.Variables, admissionv1.Variable{Name: w.variable, Expression: params.source})
	}
	for _, v := range p.Variables {
		out.Variables = append(out.Variables, admissionv1.Variable{Name: v.Name, Expression: w.inVariables(v.Expression)})
	}
	for _, v := range p.Validations {
		out.Validations = append(out.Validations, w.validation(v))
	}
	return out
}

// notFound is what an API server says.
const notFound = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"

// free is a name that no variable has.
func free(name string, taken []admissionv1.Variable) string {
	for slices.ContainsFunc(taken, func(v admissionv1.Variable) bool { return v.Name == name }) {
		name += "_"
	}
	return name
}

// writer writes expressions that have their parameters with them.
type writer struct {
	parameters
	// variable holds the parameters.
	variable string
}

func (w writer) validation(v admissionv1.Validation) admissionv1.Validation {
	out := admissionv1.Validation{
		Expression: w.guard(w.inVariables(v.Expression)), MessageExpression: w.inVariables(v.MessageExpression),
		Message: strings.TrimSpace(v.Message),
	}
	if out.Message == "" {
		// As an API server says it of the expression as it was.
		out.Message = "failed expression: " + strings.Join(strings.Fields(v.Expression), " ")
	}
	if v.Reason != nil {
		out.Reason = new(*v.Reason)
	}
	return out
}

// params are how an expression asks for parameters.
var params = regexp.MustCompile(`\bparams\b`)

func (w writer) inVariables(expression string) string {
	return w.with("variables."+w.variable, expression)
}

// with binds the name params to a source, where an expression uses it. The line breaks end
// comments.
func (w writer) with(source, expression string) string {
	if w.source == "" || !params.MatchString(expression) {
		return expression
	}
	return "[" + source + "].map(params,\n" + expression + "\n)[0]"
}

// found is true for claims that have parameters.
func (w writer) found() string {
	names := make([]string, len(w.namespaces))
	for i, ns := range w.namespaces {
		names[i] = quote(ns)
	}
	return "request.namespace in [" + strings.Join(names, ", ") + "]"
}

// guard makes an expression true where the claim is denied for its parameters.
func (w writer) guard(expression string) string {
	if w.namespaces == nil || !w.deny {
		return expression
	}
	return "!(" + w.found() + ") || (\n" + expression + "\n)"
}

// changed is true for a claim that is new, or goes, or is changed in what travels: what
// stays as it is, is not judged.
func (a API) changed() string {
	listed := make([]string, len(a.Keys))
	for i, key := range a.Keys {
		listed[i] = quote(key)
	}
	maps := make([]string, 0, 4)
	for _, o := range []string{"object", "oldObject"} {
		for _, m := range []string{"labels", "annotations"} {
			maps = append(maps, fmt.Sprintf("%s.metadata.?%s.orValue({})", o, m))
		}
	}
	different := fmt.Sprintf("(%s[?k] != %s[?k] || %s[?k] != %s[?k])", maps[0], maps[2], maps[1], maps[3])
	keys := make([]string, len(maps))
	for i, m := range maps {
		keys[i] = m + ".map(k, k)"
	}
	return "object == null || oldObject == null || object.?spec != oldObject.?spec || (" + strings.Join(keys, " + ") + ").exists(k, " +
		fmt.Sprintf("(%s || k in [%s] || k.split('/')[0] + '/' in [%s]) && ", always, strings.Join(listed, ", "), strings.Join(listed, ", ")) + different + ")"
}

// always are the keys that travel in any case: contract.Keys.
const always = "!k.contains('/') || k.startsWith('app.kubernetes.io/') && !(k in ['app.kubernetes.io/instance', 'app.kubernetes.io/managed-by'])"
