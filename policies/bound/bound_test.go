package bound

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/environment"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/evaluator"
	"gitbind.dev/test/golden"
)

var (
	api      = API{Group: "anynines.com", Plural: "postgresqlinstances"}
	resource = schema.GroupVersionResource{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}
)

// policy has a match and a spec besides, in YAML.
func policy(name, match, rest string) string {
	return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: %s}\nspec:\n  matchConstraints: %s\n  %s\n",
		name, match, strings.ReplaceAll(strings.TrimSpace(rest), "\n", "\n  "))
}

func binding(name, of, rest string) string {
	return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: %s}\nspec: {policyName: %s, validationActions: [Deny]%s}\n", name, of, rest)
}

func configMap(namespace, name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s, labels: {is: %s}}\ndata: %s\n", name, namespace, name, data)
}

const (
	everything = `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}`
	never      = "validations: [{expression: 'false', message: nothing is good enough}]"
)

func parse(t testing.TB, texts ...string) *evaluator.Manifests {
	t.Helper()
	var files []evaluator.File
	for i, text := range texts {
		files = append(files, evaluator.File{Name: fmt.Sprint(i), Data: []byte(text)})
	}
	m, err := evaluator.Parse(files...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rules are how one policy with a match, and one binding of it, are bound.
func rules(t *testing.T, label, match, resources string) []string {
	t.Helper()
	text := policy("p", match, never)
	if label != "" {
		text = strings.Replace(text, "{name: p}", "{name: p, labels: {"+label+"}}", 1)
	}
	policies, _ := api.Policies(parse(t, text, binding("b", "p", resources)))
	var out []string
	for _, p := range policies {
		for kind, rules := range map[string][]admissionv1.NamedRuleWithOperations{"": p.Spec.MatchConstraints.ResourceRules, "not": p.Spec.MatchConstraints.ExcludeResourceRules} {
			for _, r := range rules {
				if !slices.Equal(r.APIGroups, []string{"anynines.com"}) || !slices.Equal(r.Resources, []string{"postgresqlinstances"}) || *r.Scope != admissionv1.NamespacedScope {
					t.Errorf("it matches %v", r)
				}
				out = append(out, strings.TrimSpace(fmt.Sprint(kind, " ", r.Operations, r.APIVersions, " ", strings.Join(r.ResourceNames, " "))))
			}
		}
	}
	slices.Sort(out)
	return out
}

// A policy may say what it likes of what it matches: bound, it is about the one API.
func TestE10_AHostilePolicyMatchesNothingBesideTheBoundAPI(t *testing.T) {
	const changes = "[CREATE UPDATE] [*]"
	admission := evaluator.GateLabel + ": " + evaluator.AdmissionOnly
	for name, c := range map[string]struct {
		label, match, binding string
		want                  []string
	}{
		"everything":                          {"", everything, "", []string{changes}},
		"everything, subresources, too":       {"", strings.Replace(everything, `["*"]}]`, `["*/*"]}]`, 1), "", []string{changes}},
		"deletes, of an offer's policy":       {"", `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [DELETE, CONNECT], resources: ["*"]}]}`, "", nil},
		"deletes, where only API servers ask": {admission, `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [DELETE, CONNECT], resources: ["*"]}]}`, "", []string{"[DELETE] [*]"}},
		"all, where only API servers ask":     {admission, everything, "", []string{"[CREATE UPDATE DELETE] [*]"}},
		"Secrets":                             {"", `{resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: ["*"], resources: [secrets]}]}`, "", nil},
		"Secrets beside the API":              {"", `{resourceRules: [{apiGroups: ["", anynines.com], apiVersions: ["*"], operations: [UPDATE], resources: [secrets, postgresqlinstances]}]}`, "", []string{"[UPDATE] [*]"}},
		"another API of the group":            {"", `{resourceRules: [{apiGroups: [anynines.com], apiVersions: ["*"], operations: ["*"], resources: [backups]}]}`, "", nil},
		"its status":                          {"", `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: [postgresqlinstances/status, "*/status"]}]}`, "", nil},
		"cluster-wide objects":                {"", `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], scope: Cluster}]}`, "", nil},
		"no rules":                            {"", `{}`, "", nil},
		"rules of the binding":                {"", everything, `, matchResources: {resourceRules: [{apiGroups: ["*"], apiVersions: [v1], operations: [CREATE, DELETE], resources: ["*"], resourceNames: [a]}]}`, []string{"[CREATE] [v1] a"}},
		"other rules of the binding":          {"", everything, `, matchResources: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: ["*"], resources: [pods]}]}`, nil},
		"what is left out": {"", `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}],
    excludeResourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: ["*"], resources: ["*"]}, {apiGroups: ["*"], apiVersions: [v2], operations: [UPDATE], resources: ["*"]}]}`,
			`, matchResources: {excludeResourceRules: [{apiGroups: [anynines.com], apiVersions: ["*"], operations: ["*"], resources: ["*"], resourceNames: [x]}]}`,
			[]string{changes, "not [CREATE UPDATE] [*] x", "not [UPDATE] [v2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rules(t, c.label, c.match, c.binding)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of a policy comes along what judges, and nothing that asks for rights, or writes into
// an audit log.
func TestE10_OfAPolicyComesAlongOnlyWhatJudges(t *testing.T) {
	text := policy("p", everything, `
failurePolicy: Ignore
paramKind: {apiVersion: v1, kind: ConfigMap}
auditAnnotations: [{key: all, valueExpression: "'x'"}]
matchConditions: [{name: mine, expression: "object.spec.plan != 'a'"}]
variables: [{name: plan, expression: object.spec.plan}]
validations: [{expression: "variables.plan == 'b'", message: never, reason: Forbidden}]`)
	policies, left := api.Policies(parse(t, text,
		binding("b", "p", ", matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}}"),
		strings.Replace(binding("warns", "p", ""), "Deny", "Warn, Audit", 1)))
	if len(policies) != 1 {
		t.Fatalf("%d policies", len(policies))
	}
	if diff := cmp.Diff([]string{"p: its binding warns denies nothing"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	got, err := yaml.Marshal(policies[0].Spec)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/bound.yaml", got)
}

func TestWhatCannotBeBoundIsSaid(t *testing.T) {
	const by = "paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations: [{expression: params.data.a == object.spec.plan}]"
	for words, texts := range map[string][]string{
		"p: it has several parameters for one claim: a and b": {policy("p", everything, by), binding("b", "p", ", paramRef: {selector: {}, parameterNotFoundAction: Allow}"),
			configMap("team-a", "a", "{}"), configMap("team-a", "b", "{}")},
		"p: it has several parameters for one claim: x and z": {policy("p", everything, by), binding("b", "p", ", paramRef: {selector: {}, namespace: team-a, parameterNotFoundAction: Allow}"),
			configMap("team-a", "x", "{}"), configMap("team-a", "z", "{}")},
		"p: by its rules and bindings it is not about postgresqlinstances.anynines.com": {policy("p", strings.Replace(everything, `apiGroups: ["*"]`, "apiGroups: [example.org]", 1), never), binding("b", "p", "")},
	} {
		policies, left := api.Policies(parse(t, texts...))
		if len(policies) > 0 || !slices.Equal(left, []string{words}) {
			t.Errorf("%d policies, left %q, want %q", len(policies), left, words)
		}
	}
	var texts []string
	for i := range Places + 2 {
		texts = append(texts, policy(fmt.Sprintf("p%d", i), everything, never), binding(fmt.Sprintf("p%d", i), fmt.Sprintf("p%d", i), ""))
	}
	policies, left := api.Policies(parse(t, texts...))
	if want := []string{"p8: a cluster has room for 8 policies of an offer", "p9: a cluster has room for 8 policies of an offer"}; len(policies) != Places || !slices.Equal(left, want) {
		t.Errorf("%d policies, left %q", len(policies), left)
	}
}

// withoutOurs makes of bound policies what the evaluator judges by: without the conditions
// on what only an API server knows.
func withoutOurs(t testing.TB, policies []Policy) *evaluator.Set {
	t.Helper()
	var texts []string
	for i, p := range policies {
		name := fmt.Sprintf("p%02d", i)
		p.Spec.MatchConditions = p.Spec.MatchConditions[2:]
		p.Spec.MatchConstraints.MatchPolicy = new(admissionv1.Exact)
		for _, o := range []any{
			&admissionv1.ValidatingAdmissionPolicy{Spec: p.Spec},
			&admissionv1.ValidatingAdmissionPolicyBinding{Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}},
		} {
			data, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(data, &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetAPIVersion("admissionregistration.k8s.io/v1")
			u.SetKind(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."))
			u.SetName(name)
			delete(u.Object, "status")
			if data, err = yaml.Marshal(u.Object); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(data))
		}
	}
	return compile(t, parse(t, texts...))
}

func compile(t testing.TB, m *evaluator.Manifests) *evaluator.Set {
	t.Helper()
	set, err := evaluator.Compile(m)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// said is what is said of a change, without the names of policies.
func said(t *rapid.T, set *evaluator.Set, c evaluator.Change) []string {
	v, err := set.Evaluate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range v.Denials {
		// What an expression stumbles on has the expression in it, which is another one.
		_, stumbled, ok := strings.Cut(d.Message, "' resulted in error: ")
		if !ok {
			stumbled = d.Message
		}
		out = append(out, string(d.Reason)+" "+stumbled)
	}
	slices.Sort(out)
	return out
}

// TestE10_ABoundPolicyHasTheVerdictOfTheOffersPolicy compares policies as they are in an
// offer with what is made of them, by the same evaluator: those of the library and some
// that have all that can be had.
func TestE10_ABoundPolicyHasTheVerdictOfTheOffersPolicy(t *testing.T) {
	library := func(name string) string {
		data, err := os.ReadFile("../library/" + name + "/policy.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	const rest = `
paramKind: {apiVersion: v1, kind: ConfigMap}
failurePolicy: %s
matchConditions:
- {name: some, expression: "params.data.skip != object.metadata.name // a comment"}
variables:
- {name: params, expression: "params.data.plans.split(',')"}
- {name: plan, expression: object.spec.plan}
validations:
- expression: variables.plan in variables.params && params.data.plans.split(',').all(p, p != 'no')
- expression: params.data.?more.orValue('{').startsWith('{')
  messageExpression: "'quoted \"' + params.data.more + '\" \\\\ and ' + variables.plan"
  reason: Forbidden
- expression: params.metadata.name == object.spec.plan // another
  message: "  the name of params "
`
	everywhere := configMap("gitbind-system", "p", `{plans: "a,b", skip: n1, more: "{\"a\": '\\n'}"}`)
	some := configMap("team-a", "p", `{plans: "a,no", skip: n2, more: "ä\u0007☃"}`) + "---\n" + configMap("team-b", "p", `{plans: a}`)
	custom := func(failure, ref string) string {
		return policy("p", everything, fmt.Sprintf(rest, failure)) + "---\n" + binding("b", "p", ", paramRef: {"+ref+"}")
	}
	for name, texts := range map[string][]string{
		"change-freeze":            {library("change-freeze"), configMap("gitbind-system", "change-freeze", `{frozen: "true", reason: it is "late"}`)},
		"change-freeze, unset":     {library("change-freeze")},
		"immutable-fields":         {library("immutable-fields"), configMap("gitbind-system", "immutable-fields", "{fields: 'plan, expose'}")},
		"naming":                   {library("naming"), configMap("gitbind-system", "naming", "{pattern: '^n[0-9]$', example: n1}")},
		"no-downgrade":             {library("no-downgrade"), configMap("gitbind-system", "no-downgrade", "{order: 'a, b, c'}")},
		"plan-allow-list":          {library("plan-allow-list"), configMap("team-a", "plan-allow-list", "{plans: 'a, b'}"), configMap("team-b", "plan-allow-list", "{plans: c}")},
		"required-labels":          {library("required-labels"), configMap("gitbind-system", "required-labels", "{labels: 'team, cost'}")},
		"one parameter":            {custom("Fail", "name: p, namespace: gitbind-system, parameterNotFoundAction: Deny"), everywhere},
		"one, by labels":           {custom("Fail", "selector: {matchLabels: {is: p}}, namespace: gitbind-system, parameterNotFoundAction: Deny"), everywhere},
		"by namespace":             {custom("Fail", "name: p, parameterNotFoundAction: Allow"), everywhere, some},
		"by namespace, or denied":  {custom("Fail", "name: p, parameterNotFoundAction: Deny"), everywhere, some},
		"by namespace, or ignored": {custom("Ignore", "name: p, parameterNotFoundAction: Deny"), everywhere, some},
		"none, denied":             {custom("Fail", "name: q, parameterNotFoundAction: Deny"), everywhere, some},
		"none, ignored":            {custom("Ignore", "name: q, namespace: team-a, parameterNotFoundAction: Deny"), everywhere, some},
		"not asked for":            {policy("p", everything, fmt.Sprintf(rest, "Fail")), binding("b", "p", "")},
		"of a kind of its own": {strings.Replace(policy("p", everything, "paramKind: {apiVersion: x.org/v1, kind: Limits}\nvalidations: [{expression: 'size(object.spec.?plan.orValue(\"\")) < params.spec.most && params.spec.rate == 0.5 && params.spec.list[1]'}]"), "~", "", 1),
			binding("b", "p", ", paramRef: {name: l, parameterNotFoundAction: Deny}"), "apiVersion: x.org/v1\nkind: Limits\nmetadata: {name: l}\nspec: {most: 1, rate: 0.5, list: [null, true, 1], none: {}, whole: 3.0}\n"},
		"two bindings, selectors, and no parameters": {policy("p", everything, "validations: [{expression: object.spec.plan == 'a'}]"),
			binding("x", "p", ", matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}}"),
			binding("z", "p", ", matchResources: {objectSelector: {matchLabels: {team: x}}}")},
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, texts...)
			whole := compile(t, m)
			policies, left := api.Policies(m)
			if len(left) > 0 {
				t.Fatalf("left: %q", left)
			}
			bound := withoutOurs(t, policies)
			// Where nothing was denied, the comparison says little.
			denied := strings.Contains(name, "unset") || strings.Contains(name, "none, ignored")
			for tries := 0; tries == 0 || !denied; tries++ {
				if tries == 50 {
					t.Fatal("nothing was denied")
				}
				rapid.Check(t, func(t *rapid.T) {
					change := evaluator.Change{Resource: resource, Object: claim(t)}
					if rapid.Bool().Draw(t, "update") {
						change.OldObject = claim(t)
						change.OldObject.SetName(change.Object.GetName())
						change.OldObject.SetNamespace(change.Object.GetNamespace())
					}
					want := said(t, whole, change)
					denied = denied || len(want) > 0
					if diff := cmp.Diff(want, said(t, bound, change)); diff != "" {
						t.Fatalf("(-the offer's +the bound one):\n%s", diff)
					}
				})
			}
		})
	}
}

func claim(t *rapid.T) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("anynines.com/v1")
	u.SetKind("PostgresqlInstance")
	u.SetNamespace(rapid.SampledFrom([]string{"team-a", "team-b", "team-c"}).Draw(t, "namespace"))
	u.SetName(rapid.SampledFrom([]string{"n1", "n2", "other"}).Draw(t, "name"))
	spec := map[string]any{}
	for _, field := range []string{"plan", "expose"} {
		if v := rapid.SampledFrom([]string{"a", "b", "c", "p", ""}).Draw(t, field); v != "" {
			spec[field] = v
		}
	}
	u.Object["spec"] = spec
	labels := map[string]string{}
	for _, label := range []string{"team", "cost"} {
		if rapid.Bool().Draw(t, "has "+label) {
			labels[label] = "x"
		}
	}
	u.SetLabels(labels)
	return u
}

// TestAClaimThatStaysAsItIsIsNotJudged holds the condition in CEL to what the contract says
// is a change.
func TestAClaimThatStaysAsItIsIsNotJudged(t *testing.T) {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: environment.DefaultCompatibilityVersion(),
		EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []contract.Keys{nil, {"example.com/cost", "all.example.com/"}} {
		ast, issues := env.StoredExpressionsEnv().Compile(API{Keys: keys}.changed())
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.StoredExpressionsEnv().Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		changed := func(object, old any) bool {
			out, _, err := program.Eval(map[string]any{"object": object, "oldObject": old})
			if err != nil {
				t.Fatal(err)
			}
			return out.Value().(bool)
		}
		if !changed(nil, map[string]any{"metadata": map[string]any{}}) || !changed(map[string]any{"metadata": map[string]any{}}, nil) {
			t.Error("what is new, or goes, is no change")
		}
		rapid.Check(t, func(t *rapid.T) {
			version := func(name string) map[string]any {
				meta := map[string]any{"name": "x"}
				for _, field := range []string{"labels", "annotations"} {
					m := map[string]any{}
					for _, key := range []string{"plain", "example.com/cost", "example.com/other", "all.example.com/any", "app.kubernetes.io/name", "app.kubernetes.io/instance", "gitbind.dev/base"} {
						if v := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, name+field+key); v != "" {
							m[key] = v
						}
					}
					if len(m) > 0 {
						meta[field] = m
					}
				}
				return map[string]any{"metadata": meta, "spec": map[string]any{"plan": rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, name+"plan")}}
			}
			now := version("now ")
			before := now
			if rapid.Bool().Draw(t, "others") {
				before = version("before ")
				before["spec"] = now["spec"]
			}
			if rapid.Bool().Draw(t, "another spec") {
				before = map[string]any{"metadata": before["metadata"], "spec": map[string]any{"plan": "c"}}
			}
			travels := func(o map[string]any) *contract.Claim {
				return keys.Of(contract.FromObject(&unstructured.Unstructured{Object: o}))
			}
			want := !cmp.Equal(travels(now), travels(before))
			if got := changed(now, before); got != want {
				t.Fatalf("%v\n%v\nis changed: %t, want %t", now, before, got, want)
			}
		})
	}
}

func TestNothingButTheBoundAPIIsTurnedOn(t *testing.T) {
	all := Bindings("anynines.com", "postgresqlinstances")
	if len(all) != Places {
		t.Errorf("%d bindings", len(all))
	}
	for i, b := range all {
		if b.Name != fmt.Sprintf("gitbind-postgresqlinstances.anynines.com-%d", i+1) || b.Spec.PolicyName != b.Name {
			t.Errorf("%s turns on %s", b.Name, b.Spec.PolicyName)
		}
		for _, r := range b.Spec.MatchResources.ResourceRules {
			if !slices.Equal(r.APIGroups, []string{"anynines.com"}) || !slices.Equal(r.Resources, []string{"postgresqlinstances"}) {
				t.Errorf("it is about %v", r)
			}
		}
	}
}
