package evaluator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"gitbind.dev/gitbridge/brief"
)

// Set is compiled policies with their bindings and parameters.
type Set struct {
	policies []*policy
	left     []string
}

// policy is one compiled policy with the bindings that turn it on.
type policy struct {
	*admissionv1.ValidatingAdmissionPolicy
	match       *match
	bindings    []binding
	conditions  matchconditions.Matcher // nil for none
	validations plugincel.ConditionEvaluator
	messages    plugincel.ConditionEvaluator
	audits      plugincel.ConditionEvaluator
	// fields are the first ones of a claim that the validations ask for.
	fields []string
}

type binding struct {
	*admissionv1.ValidatingAdmissionPolicyBinding
	match  *match // nil matches everything
	params *params
}

// baseEnv takes a while to make, and never changes.
var baseEnv = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// Compile makes a Set. Its error is Problems: all that is wrong, and all that not every
// gate can know.
func Compile(m *Manifests) (*Set, error) {
	c := compiler{manifests: m}
	s := &Set{}
	seen := map[string]bool{}
	for _, p := range m.policies {
		if seen[p.object.Name] {
			c.problem(p.at, "metadata.name", "%s %s is there twice", policyKind, p.object.Name)
		}
		seen[p.object.Name] = true
		if p.object.Labels[GateLabel] == AdmissionOnly {
			s.left = append(s.left, p.object.Name)
			continue
		}
		s.policies = append(s.policies, c.policy(p))
	}
	slices.SortFunc(s.policies, func(a, b *policy) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(s.left)
	return s, c.problems.orNil()
}

// AdmissionOnly are the names of the policies that are left to API servers, sorted.
func (s *Set) AdmissionOnly() []string { return s.left }

// Policies are the names of those that are evaluated, sorted.
func (s *Set) Policies() []string {
	out := make([]string, len(s.policies))
	for i, p := range s.policies {
		out[i] = p.Name
	}
	return out
}

// Unbound are the names of policies that no binding turns on: they judge nothing.
func (s *Set) Unbound() []string {
	var out []string
	for _, p := range s.policies {
		if len(p.bindings) == 0 {
			out = append(out, p.Name)
		}
	}
	return out
}

// Idle are the names of policies that deny no new or changed object of a resource, whatever is in
// it, by their rules or by those of the bindings that deny.
func (s *Set) Idle(of schema.GroupVersionResource) []string {
	var out []string
	for _, p := range s.policies {
		if !p.mayDeny(of, admission.Create) && !p.mayDeny(of, admission.Update) {
			out = append(out, p.Name)
		}
	}
	return out
}

func (p *policy) mayDeny(of schema.GroupVersionResource, operation admission.Operation) bool {
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "any", "", of, "", operation, nil, false, nil)
	return p.match.covers(a) && slices.ContainsFunc(p.bindings, func(b binding) bool {
		return slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) && b.match.covers(a)
	})
}

type compiler struct {
	manifests *Manifests
	problems  Problems
}

func (c *compiler) problem(d File, field, format string, args ...any) {
	c.problems = append(c.problems, d.problem(field, format, args...))
}

// policy compiles one policy and its bindings.
func (c *compiler) policy(from located[*admissionv1.ValidatingAdmissionPolicy]) *policy {
	spec := &from.object.Spec
	p := &policy{ValidatingAdmissionPolicy: from.object}
	say := func(field, format string, args ...any) {
		c.problem(from.at, field, "%s %s: %s: %s", policyKind, from.object.Name, field, fmt.Sprintf(format, args...))
	}
	switch {
	case from.object.Name == "":
		say("metadata.name", "is missing")
	case spec.MatchConstraints == nil || len(spec.MatchConstraints.ResourceRules) == 0:
		say("spec.matchConstraints", "name in resourceRules what it is about")
	case len(spec.Validations)+len(spec.AuditAnnotations) == 0:
		say("spec", "has neither validations nor auditAnnotations")
	}
	if !slices.Contains([]admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}, *spec.FailurePolicy) {
		say("spec.failurePolicy", "is %q: want Fail or Ignore", *spec.FailurePolicy)
	}
	p.match = newMatch(spec.MatchConstraints, func(field, format string, args ...any) {
		say("spec.matchConstraints."+field, format, args...)
	})
	e := &expressions{say: say, variables: map[string]string{}}
	e.compile(p)
	for _, b := range c.manifests.bindings {
		if b.object.Spec.PolicyName == from.object.Name {
			p.bindings = append(p.bindings, c.binding(p, b))
		}
	}
	slices.SortFunc(p.bindings, func(a, b binding) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

func (c *compiler) binding(p *policy, from located[*admissionv1.ValidatingAdmissionPolicyBinding]) binding {
	spec := &from.object.Spec
	say := func(field, format string, args ...any) {
		c.problem(from.at, field, "%s %s: %s: %s", bindingKind, from.object.Name, field, fmt.Sprintf(format, args...))
	}
	b := binding{ValidatingAdmissionPolicyBinding: from.object}
	actions := spec.ValidationActions
	if len(actions) == 0 {
		say("spec.validationActions", "is empty: want some of Deny, Warn, Audit")
	}
	for i, a := range actions {
		switch {
		case a != admissionv1.Deny && a != admissionv1.Warn && a != admissionv1.Audit:
			say("spec.validationActions", "has %q: want some of Deny, Warn, Audit", a)
		case slices.Contains(actions[:i], a):
			say("spec.validationActions", "has %s twice", a)
		case a == admissionv1.Warn && slices.Contains(actions, admissionv1.Deny):
			say("spec.validationActions", "has both Deny and Warn, which would say the same twice: leave one out")
		}
	}
	b.match = newMatch(spec.MatchResources, func(field, format string, args ...any) {
		say("spec.matchResources."+field, format, args...)
	})
	b.params = c.params(p.Spec.ParamKind, spec.ParamRef, say)
	return b
}

// expressions compiles those of one policy.
type expressions struct {
	*plugincel.CompositedCompiler
	options plugincel.OptionalVariableDeclarations
	say     func(field, format string, args ...any)
	// variables are the first fields of a claim that the policy's variables ask for.
	variables map[string]string
}

func (e *expressions) compile(p *policy) {
	var err error
	if e.CompositedCompiler, err = plugincel.NewCompositedCompiler(baseEnv()); err != nil {
		e.say("spec", "%s", oneLine(err))
		return
	}
	spec := &p.Spec
	// An API server declares the authorizer; where it is named, the policy is refused.
	e.options = plugincel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	for i := range spec.Variables {
		v := variable{spec.Variables[i]}
		used, compiled := e.examine(i, "spec.variables[%d].expression", v)
		e.variables[v.Name] = e.field(used)
		if compiled {
			e.CompileAndStoreVariable(v, e.options, environment.StoredExpressions)
		}
	}
	var validations, messages, conditions, audits []plugincel.ExpressionAccessor
	for i := range spec.Validations {
		v := &spec.Validations[i]
		used, _ := e.examine(i, "spec.validations[%d].expression", typed{v.Expression, boolean})
		p.fields = append(p.fields, e.field(used))
		validations = append(validations, typed{v.Expression, boolean})
		var message plugincel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = typed{v.MessageExpression, []*cel.Type{cel.StringType}}
			e.examine(i, "spec.validations[%d].messageExpression", message)
		}
		messages = append(messages, message)
	}
	for i := range spec.MatchConditions {
		condition := (*matchconditions.MatchCondition)(&spec.MatchConditions[i])
		e.examine(i, "spec.matchConditions[%d].expression", condition)
		conditions = append(conditions, condition)
	}
	for i := range spec.AuditAnnotations {
		audit := typed{spec.AuditAnnotations[i].ValueExpression, []*cel.Type{cel.StringType, cel.NullType}}
		e.examine(i, "spec.auditAnnotations[%d].valueExpression", audit)
		audits = append(audits, audit)
	}
	p.validations = e.CompileCondition(validations, e.options, environment.StoredExpressions)
	p.audits = e.CompileCondition(audits, e.options, environment.StoredExpressions)
	if len(conditions) > 0 {
		p.conditions = matchconditions.NewMatcher(e.CompileCondition(conditions, e.options, environment.StoredExpressions),
			spec.FailurePolicy, "policy", "validate", p.Name)
	}
	p.messages = e.CompileCondition(messages, plugincel.OptionalVariableDeclarations{HasParams: e.options.HasParams}, environment.StoredExpressions)
}

// examine says what an expression uses, and refuses it where it does not compile or
// not every gate knows what it asks for.
func (e *expressions) examine(i int, field string, x plugincel.ExpressionAccessor) (used use, compiled bool) {
	field = fmt.Sprintf(field, i)
	if env, err := e.Env(environment.StoredExpressions); err == nil {
		// What does not parse, the compiler tells.
		if ast, issues := env.Parse(x.GetExpression()); issues.Err() == nil {
			if used, err = examine(ast.NativeRep()); err != nil {
				e.say(field, "%s %s; or label the policy %s: %s, so that API servers alone judge by it", quoted(x.GetExpression()), err, GateLabel, AdmissionOnly)
				return used, false
			}
		}
	}
	if r := e.CompileCELExpression(x, e.options, environment.StoredExpressions); r.Error != nil {
		e.say(field, "%s: %s", quoted(x.GetExpression()), strings.TrimSpace(r.Error.Detail))
		return used, false
	}
	return used, true
}

// field is the first one of a claim that is used, by way of variables, too.
func (e *expressions) field(u use) string {
	if len(u.fields) > 0 {
		return u.fields[0]
	}
	for _, name := range u.variables {
		if field := e.variables[name]; field != "" {
			return field
		}
	}
	return ""
}

func quoted(expression string) string {
	const most = 80
	return "`" + brief.Cut(brief.OneLine(expression), most) + "`"
}

// typed is an expression with the types that it may have.
type typed struct {
	expression string
	types      []*cel.Type
}

func (t typed) GetExpression() string    { return t.expression }
func (t typed) ReturnTypes() []*cel.Type { return t.types }

var boolean = []*cel.Type{cel.BoolType}

// variable is an expression with a name.
type variable struct{ admissionv1.Variable }

func (v variable) GetName() string          { return v.Name }
func (v variable) GetExpression() string    { return v.Expression }
func (v variable) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

// kindOf is what a paramKind names.
func kindOf(p *admissionv1.ParamKind) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(p.APIVersion, p.Kind)
}
