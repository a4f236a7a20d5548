package evaluator_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/policies/evaluator"
)

var (
	databases = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "databases"}
	// clusterDatabases are in no namespace.
	clusterDatabases = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "clusterdatabases"}
)

// database is one in team-a with a plan, and changes.
func database(plan string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Database",
		"metadata": map[string]any{"name": "orders", "namespace": "team-a"},
		"spec":     map[string]any{"plan": plan, "nodes": int64(3)},
	}}
	for _, c := range change {
		c(u)
	}
	return u
}

func labelled(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{key: value}) }
}

func in(namespace string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.SetNamespace(namespace) }
}

// clusterScoped makes a database one that is in no namespace.
func clusterScoped(u *unstructured.Unstructured) {
	u.SetKind("ClusterDatabase")
	u.SetNamespace("")
}

// manifests are a policy p with this spec, and a binding b of it with that.
func manifests(spec, binding string, more ...string) string {
	indent := func(s string) string { return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }
	if !strings.Contains(spec, "matchConstraints") {
		spec += "\nmatchConstraints: {resourceRules: [{apiGroups: [example.org], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [databases]}]}"
	}
	if !strings.Contains(binding, "validationActions") {
		binding += "\nvalidationActions: [Deny]"
	}
	docs := append([]string{
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n" + indent(spec),
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec:\n" + indent(binding+"\npolicyName: p"),
	}, more...)
	return strings.Join(docs, "\n---\n") + "\n"
}

func compile(text string) (*evaluator.Set, error) {
	m, err := evaluator.Parse(evaluator.File{Name: "policy.yaml", Data: []byte(text)})
	if err != nil {
		return nil, err
	}
	return evaluator.Compile(m)
}

// evaluation is a policy, and what it says of a change; without one, of a new claim.
type evaluation struct {
	spec, binding string
	more          []string
	change        evaluator.Change
	want          evaluator.Verdict
}

func evaluations() map[string]evaluation {
	plans := func(namespace, data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plans, namespace: " + namespace + ", labels: {a: b}}\ndata: {plans: '" + data + "'}"
	}
	const byParams = "paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations: [{expression: \"object.spec.plan in params.data.plans.split(',')\", messageExpression: \"'only ' + params.data.plans\"}]"
	denied := func(message string) evaluator.Verdict {
		return evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Message: message, Reason: metav1.StatusReasonInvalid, Field: "spec.plan"}}}
	}
	of := func(scope string) string {
		return "[{apiGroups: [example.org], apiVersions: ['*'], operations: ['*'], resources: ['*'], scope: '" + scope + "'}]"
	}
	const refuses = "validations: [{expression: object.spec.plan != 'small', message: nope}]\n"
	wide := evaluator.Change{Resource: clusterDatabases, Object: database("small", clusterScoped)}
	return map[string]evaluation{
		"what holds is allowed": {
			spec: "validations: [{expression: object.spec.plan == 'small'}]",
		},
		"an expression stands in for a message": {
			spec: "validations: [{expression: object.spec.plan != 'small'}]",
			want: denied("failed expression: object.spec.plan != 'small'"),
		},
		"a message": {
			spec: "validations: [{expression: object.spec.plan != 'small', message: ' too small '}]",
			want: denied("too small"),
		},
		"a messageExpression goes before a message": {
			spec: "validations: [{expression: object.spec.plan != 'small', message: nope, messageExpression: \"'not ' + object.spec.plan\"}]",
			want: denied("not small"),
		},
		"a messageExpression that fails, is empty or has lines leaves it to the message": {
			spec: "validations: [{expression: object.spec.plan != 'small', message: nope, messageExpression: string(object.spec.none)}]",
			want: denied("nope"),
		},
		"of several lines": {
			spec: "validations: [{expression: object.spec.plan != 'small', message: nope, messageExpression: \"'a\\\\nb'\"}]",
			want: denied("nope"),
		},
		"the first validation that fails is told, with its reason": {
			spec: "validations: [{expression: object.spec.nodes == 3}, {expression: object.spec.plan != 'small', message: one, reason: Forbidden}, {expression: object.spec.nodes == 4, message: two}]",
			want: evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Message: "one", Reason: metav1.StatusReasonForbidden, Field: "spec.plan"}}},
		},
		"an error denies": {
			spec: "validations: [{expression: object.spec.none == 1}]",
			want: evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Reason: metav1.StatusReasonInvalid, Field: "spec.none",
				Message: "expression 'object.spec.none == 1' resulted in error: no such key: none"}}},
		},
		"but not with failurePolicy Ignore": {
			spec: "failurePolicy: Ignore\nvalidations: [{expression: object.spec.none == 1}]",
		},
		"too costly an expression denies": {
			spec: "validations: [{expression: \"[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a+b+c+d+e+f >= 0))))))\"}]",
			want: evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Reason: metav1.StatusReasonInvalid,
				Message: "expression '[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a+b+c+d+e+f >= 0))))))' resulted in error: operation cancelled: actual cost limit exceeded"}}},
		},
		"variables, one made of another": {
			spec: "variables: [{name: plan, expression: object.spec.plan}, {name: big, expression: variables.plan == 'big'}]\nvalidations: [{expression: variables.big, message: nope}]",
			want: denied("nope"),
		},
		"a condition that is not met leaves it out": {
			spec: "matchConditions: [{name: big, expression: object.spec.plan == 'big'}]\nvalidations: [{expression: 'false'}]",
		},
		"a condition that fails denies": {
			spec: "matchConditions: [{name: big, expression: object.spec.none == 'big'}]\nvalidations: [{expression: 'false'}]",
			want: evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Reason: metav1.StatusReasonInvalid,
				Message: "expression 'object.spec.none == 'big'' resulted in error: no such key: none"}}},
		},
		"an update sees the old object": {
			spec:   "validations: [{expression: \"request.operation == 'CREATE' || object.spec.plan == oldObject.spec.plan\", message: it stays}]",
			change: evaluator.Change{Object: database("small"), OldObject: database("big")},
			want:   denied("it stays"),
		},
		"a new object has none": {
			spec: "validations: [{expression: oldObject == null && request.operation == 'CREATE' && request.name == 'orders' && request.namespace == 'team-a' && request.kind.kind == 'Database'}]",
		},
		"a delete, by those who ask for it": {
			spec:   "matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [DELETE], resources: ['*']}]}\nvalidations: [{expression: object != null || oldObject.spec.plan != 'small', message: it stays}]",
			change: evaluator.Change{OldObject: database("small")},
			want:   denied("it stays"),
		},
		"other operations are not matched": {
			spec:   "validations: [{expression: 'false'}]",
			change: evaluator.Change{OldObject: database("small")},
		},
		"other APIs are not matched": {
			spec:   "validations: [{expression: 'false'}]",
			change: evaluator.Change{Object: database("small"), Resource: databases.GroupResource().WithVersion("v1").GroupVersion().WithResource("caches")},
		},
		"an excluded name is not matched": {
			spec: "matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}], excludeResourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*'], resourceNames: [orders]}]}\nvalidations: [{expression: 'false'}]",
		},
		"an exact version that is another is not matched": {
			spec: "matchConstraints: {matchPolicy: Exact, resourceRules: [{apiGroups: ['*'], apiVersions: [v2], operations: ['*'], resources: ['*']}]}\nvalidations: [{expression: 'false'}]",
		},
		"without a scope, both are matched: an object in no namespace": {
			spec:   refuses + "matchConstraints: {resourceRules: [{apiGroups: [example.org], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}",
			change: wide, want: denied("nope"),
		},
		"scope Namespaced: an object in a namespace": {
			spec: refuses + "matchConstraints: {resourceRules: " + of("Namespaced") + "}",
			want: denied("nope"),
		},
		"scope Namespaced: an object in no namespace": {
			spec:   refuses + "matchConstraints: {resourceRules: " + of("Namespaced") + "}",
			change: wide,
		},
		"scope Cluster: an object in a namespace": {
			spec: refuses + "matchConstraints: {resourceRules: " + of("Cluster") + "}",
		},
		"scope Cluster: an object in no namespace": {
			spec:   refuses + "matchConstraints: {resourceRules: " + of("Cluster") + "}",
			change: wide, want: denied("nope"),
		},
		"scope Cluster excluded: an object in a namespace": {
			spec: refuses + "matchConstraints: {resourceRules: " + of("*") + ", excludeResourceRules: " + of("Cluster") + "}",
			want: denied("nope"),
		},
		"scope Cluster excluded: an object in no namespace": {
			spec:   refuses + "matchConstraints: {resourceRules: " + of("*") + ", excludeResourceRules: " + of("Cluster") + "}",
			change: wide,
		},
		"scope Namespaced of a binding: an object in no namespace": {
			spec:    refuses + "matchConstraints: {resourceRules: " + of("*") + "}",
			binding: "matchResources: {resourceRules: " + of("Namespaced") + "}",
			change:  wide,
		},
		"scope Namespaced excluded by a binding: an object in no namespace": {
			spec:    refuses + "matchConstraints: {resourceRules: " + of("*") + "}",
			binding: "matchResources: {excludeResourceRules: " + of("Namespaced") + "}",
			change:  wide, want: denied("nope"),
		},
		"a namespace by its name leaves no object out that is in none": {
			spec:    refuses + "matchConstraints: {resourceRules: " + of("*") + "}",
			binding: "matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-b}}}",
			change:  wide, want: denied("nope"),
		},
		"a namespace by its name": {
			spec:    "validations: [{expression: 'false', message: nope}]",
			binding: "matchResources: {namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team-b]}]}}",
		},
		"a label of the old object is enough": {
			spec:    "validations: [{expression: object.spec.plan != 'small', message: nope}]",
			binding: "matchResources: {objectSelector: {matchLabels: {tier: gold}}}",
			change:  evaluator.Change{Object: database("small"), OldObject: database("small", labelled("tier", "gold"))},
			want:    denied("nope"),
		},
		"parameters of the object's namespace": {
			spec: byParams, binding: "paramRef: {name: plans, parameterNotFoundAction: Deny}", more: []string{plans("team-a", "big"), plans("team-b", "small")},
			want: denied("only big"),
		},
		"parameters of one namespace": {
			spec: byParams, binding: "paramRef: {name: plans, namespace: team-b, parameterNotFoundAction: Deny}", more: []string{plans("team-a", "big"), plans("team-b", "small")},
		},
		"parameters of the object's namespace, and it is in none": {
			spec:    byParams + "\nmatchConstraints: {resourceRules: " + of("*") + "}",
			binding: "paramRef: {name: plans, parameterNotFoundAction: Allow}", more: []string{plans("team-a", "small")},
			change: wide,
			want: evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Reason: metav1.StatusReasonInvalid,
				Message: "failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"}}},
		},
		"parameters of one namespace, for an object in none": {
			spec:    byParams + "\nmatchConstraints: {resourceRules: " + of("*") + "}",
			binding: "paramRef: {name: plans, namespace: team-a, parameterNotFoundAction: Allow}", more: []string{plans("team-a", "big")},
			change: wide, want: denied("only big"),
		},
		"parameters by labels: all of them count": {
			spec: byParams, binding: "paramRef: {selector: {matchLabels: {a: b}}, parameterNotFoundAction: Deny}", more: []string{plans("team-a", "small"), strings.Replace(plans("team-a", "big"), "name: plans", "name: more", 1)},
			want: denied("only big"),
		},
		"no parameters, and Deny": {
			spec: byParams, binding: "paramRef: {name: none, parameterNotFoundAction: Deny}",
			want: evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Reason: metav1.StatusReasonInvalid,
				Message: "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"}}},
		},
		"no parameters, and Allow": {
			spec: byParams, binding: "paramRef: {name: none, parameterNotFoundAction: Allow}",
		},
		"no parameters, and failurePolicy Ignore": {
			spec: "failurePolicy: Ignore\n" + byParams, binding: "paramRef: {name: none, parameterNotFoundAction: Deny}",
		},
		"a warning, and a note for the audit log": {
			spec:    "validations: [{expression: object.spec.plan != 'small', message: nope}]\nauditAnnotations: [{key: plan, valueExpression: string(object.spec.plan)}, {key: none, valueExpression: 'null'}]",
			binding: "validationActions: [Warn, Audit]",
			want: evaluator.Verdict{
				Warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': nope"},
				Audit: map[string]string{
					"p/plan": "small",
					"validation.policy.admission.k8s.io/validation_failure": `[{"binding":"b","expressionIndex":0,"message":"nope","policy":"p","validationActions":["Warn","Audit"]}]`,
				},
			},
		},
		"an annotation that fails denies": {
			spec: "auditAnnotations: [{key: plan, valueExpression: string(object.spec.none)}]",
			want: evaluator.Verdict{Denials: []evaluator.Denial{{Policy: "p", Binding: "b", Reason: metav1.StatusReasonInvalid,
				Message: "expression 'string(object.spec.none)' resulted in error: no such key: none"}}},
		},
	}
}

// what is the change that is judged.
func (e evaluation) what() evaluator.Change {
	c := e.change
	if c.Object == nil && c.OldObject == nil {
		c.Object = database("small")
	}
	if c.Resource.Empty() {
		c.Resource = databases
	}
	return c
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	for name, test := range evaluations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := compile(manifests(test.spec, test.binding, test.more...))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Evaluate(t.Context(), test.what())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAllBindingsAreAsked(t *testing.T) {
	t.Parallel()
	s, err := compile(manifests("validations: [{expression: 'false', message: nope}]\nauditAnnotations: [{key: k, valueExpression: \"'v'\"}]", "",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: p, validationActions: [Deny]}",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: c}\nspec: {policyName: p, validationActions: [Warn]}"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Evaluate(t.Context(), evaluator.Change{Resource: databases, Object: database("small")})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, d := range got.Denials {
		said = append(said, d.String())
	}
	want := []string{
		"ValidatingAdmissionPolicy 'p' with binding 'a' denied request: nope",
		"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: nope",
		"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'c': nope",
	}
	if diff := cmp.Diff(want, append(said, got.Warnings...)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Allowed() || got.Audit["p/k"] != "v" {
		t.Errorf("%+v", got)
	}
}

func TestPoliciesRatchet(t *testing.T) {
	t.Parallel()
	s, err := compile(manifests("matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}\nvalidations: [{expression: 'false'}]", ""))
	if err != nil {
		t.Fatal(err)
	}
	served := func(u *unstructured.Unstructured) {
		u.SetResourceVersion("7")
		u.Object["status"] = map[string]any{"ready": true}
	}
	for name, test := range map[string]struct {
		object, old *unstructured.Unstructured
		allowed     bool
	}{
		"a delete passes":                 {old: database("small"), allowed: true},
		"an unchanged object passes":      {object: database("small"), old: database("small", served), allowed: true},
		"a new one is judged":             {object: database("small")},
		"a change is judged":              {object: database("small"), old: database("big")},
		"a label is a change":             {object: database("small", labelled("a", "b")), old: database("small")},
		"a label that goes is one, too":   {object: database("small"), old: database("small", labelled("a", "b"))},
		"an annotation is a change, too":  {object: database("small", func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"a": "b"}) }), old: database("small")},
		"another namespace is a new one":  {object: database("small", in("team-b"))},
		"a spec that goes away is judged": {object: database("small", func(u *unstructured.Unstructured) { delete(u.Object, "spec") }), old: database("small")},
	} {
		v, err := s.Judge(t.Context(), evaluator.Change{Resource: databases, Object: test.object, OldObject: test.old})
		if err != nil || v.Allowed() != test.allowed {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

func TestOneSetServesManyGoroutines(t *testing.T) {
	t.Parallel()
	s, err := compile(manifests("variables: [{name: plan, expression: object.spec.plan}]\nmatchConditions: [{name: c, expression: variables.plan != 'none'}]\nvalidations: [{expression: variables.plan == 'small', messageExpression: \"'not ' + variables.plan\"}]", ""))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, plan := range []string{"small", "big", "huge", "none"} {
		all.Go(func() {
			for range 50 {
				v, err := s.Evaluate(t.Context(), evaluator.Change{Resource: databases, Object: database(plan)})
				switch {
				case err != nil:
					t.Error(err)
				case v.Allowed() != (plan == "small" || plan == "none"):
					t.Errorf("%s: %+v", plan, v)
				case !v.Allowed() && v.Denials[0].Message != "not "+plan:
					t.Errorf("%s: %s", plan, v.Denials[0].Message)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkEvaluate is what one policy with parameters and a message of its own costs for a
// change.
func BenchmarkEvaluate(b *testing.B) {
	s, err := compile(manifests(`paramKind: {apiVersion: v1, kind: ConfigMap}
variables: [{name: plans, expression: "params.data.plans.split(',').map(p, p.trim())"}]
validations: [{expression: object.spec.plan in variables.plans, messageExpression: "'only ' + variables.plans.join(', ')"}]`,
		"paramRef: {name: plans, parameterNotFoundAction: Deny}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plans, namespace: team-a}\ndata: {plans: 'small, medium, big'}"))
	if err != nil {
		b.Fatal(err)
	}
	for name, plan := range map[string]string{"allowed": "big", "denied": "huge"} {
		b.Run(name, func(b *testing.B) {
			change := evaluator.Change{Resource: databases, Object: database(plan)}
			for b.Loop() {
				if v, err := s.Evaluate(b.Context(), change); err != nil || v.Allowed() != (name == "allowed") {
					b.Fatal(v, err)
				}
			}
		})
	}
}
