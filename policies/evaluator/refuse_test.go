package evaluator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/policies/evaluator"
)

func TestWhatNotEveryGateKnowsIsRefused(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"request.userInfo.username == 'x'": "uses request.userInfo: ",
		"request.dryRun":                   "uses request.dryRun: ",
		"request.?options.hasValue()":      "uses request.options: ",
		"request == null":                  "uses request as a whole: ",
		"authorizer.group('').resource('x').check('get').allowed()":   "uses authorizer: ",
		"authorizer.requestResource.check('x').allowed()":             "uses authorizer: ",
		"namespaceObject.metadata.name == 'x'":                        "uses namespaceObject: ",
		"has(object.status)":                                          "uses object.status: ",
		"object.?status.?ready.orValue(true)":                         "uses object.status: ",
		"oldObject['status'] == null":                                 "uses oldObject.status: ",
		"object == oldObject":                                         "uses object as a whole: ",
		"[object].all(o, o.status.ready)":                             "uses object as a whole: ",
		"object[object.kind] == 'x'":                                  "uses object as a whole: ",
		"object.metadata == oldObject.metadata":                       "uses object.metadata as a whole: ",
		"object.metadata.uid != ''":                                   "uses object.metadata.uid, which an API server sets: ",
		"object.?metadata.?creationTimestamp.hasValue()":              "uses object.metadata.creationTimestamp, ",
		"object.metadata.labels.all(k, k.startsWith('x'))":            "uses object.metadata.labels as a whole: ",
		"object.metadata.annotations == oldObject.metadata.labels":    "as a whole: ",
		"object.metadata.?labels.orValue({}).size() > 0":              "uses object.metadata.labels as a whole: ",
		"'argocd.argoproj.io/x' in object.metadata.annotations":       `uses object.metadata.annotations["argocd.argoproj.io/x"], which belongs to a tool`,
		"object.metadata.annotations['gitbind.dev/base'] == ''":       `uses object.metadata.annotations["gitbind.dev/base"]`,
		"object.metadata.?labels[?'helm.sh/chart'].orValue('') == ''": `uses object.metadata.labels["helm.sh/chart"]`,
		"object.spec.list.exists(i, i == request.userInfo.username)":  "uses request.userInfo: ",
		"cel.bind(m, object.metadata, m.uid == '')":                   "uses object.metadata as a whole: ",
		"params.metadata.resourceVersion == ''":                       "uses params.metadata.resourceVersion, ",
		"params == {}":                                                "uses params as a whole: ",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			_, err := compile(manifests("paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations:\n- expression: \"true\"\n- expression: >-\n    "+expression, "paramRef: {name: x, parameterNotFoundAction: Deny}"))
			var problems evaluator.Problems
			if !errors.As(err, &problems) || len(problems) != 1 {
				t.Fatalf("not one problem: %v", err)
			}
			const where = "policy.yaml:8: ValidatingAdmissionPolicy p: spec.validations[1].expression: `"
			if got := err.Error(); !strings.HasPrefix(got, where) || !strings.Contains(got, want) || !strings.Contains(got, "gitbind.dev/gate: Admission") {
				t.Errorf("%s\nwant %s … %s", got, where, want)
			}
		})
	}
}

func TestWhatEveryGateKnowsIsTaken(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"object != null && oldObject == null",
		"has(object.metadata.labels) && 'team' in object.metadata.labels && object.metadata.labels['team'] != ''",
		"object.metadata.?labels[?'app.kubernetes.io/name'].orValue('') != ''",
		"'team' in object.metadata.?labels.orValue({})",
		"params.data.labels.split(',').all(l, l in object.metadata.labels)",
		"params.data.labels.split(',').all(l, object.metadata.labels[l] != '')",
		"has(object.spec) && object.spec.list.all(i, i.status.uid == 1)",
		"object.?spec == oldObject.?spec",
		"request.name == object.metadata.name && request.namespace == object.metadata.namespace && request.resource.resource == 'x'",
		"params != null && params.metadata.labels.all(k, k != '') && params.metadata.name != ''",
		"request.namespace in params.data",
		"object.kind == 'Database' && object.apiVersion.startsWith('example.org/')",
	} {
		if _, err := compile(manifests("paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations:\n- expression: >-\n    "+expression, "paramRef: {name: x, parameterNotFoundAction: Deny}")); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func TestRefusedInEachPlace(t *testing.T) {
	t.Parallel()
	const ok = "validations: [{expression: 'true'}]"
	rules := func(more string) string {
		return ok + "\nmatchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}], " + more + "}"
	}
	const user = "request.userInfo.username == ''"
	for name, test := range map[string]struct{ text, want string }{
		"a variable":              {manifests(ok+"\nvariables: [{name: v, expression: \""+user+"\"}]", ""), "spec.variables[0].expression: `" + user + "` uses request.userInfo"},
		"a message":               {manifests("validations: [{expression: 'false', messageExpression: request.userInfo.username}]", ""), "spec.validations[0].messageExpression: `request.userInfo.username` uses"},
		"a condition":             {manifests(ok+"\nmatchConditions: [{name: c, expression: \""+user+"\"}]", ""), "spec.matchConditions[0].expression: "},
		"an annotation":           {manifests(ok+"\nauditAnnotations: [{key: c, valueExpression: request.userInfo.username}]", ""), "spec.auditAnnotations[0].valueExpression: "},
		"a namespace's label":     {manifests(rules("namespaceSelector: {matchLabels: {team: a}}"), ""), "spec.matchConstraints.namespaceSelector: asks for the label team"},
		"a label of a tool":       {manifests(ok, "matchResources: {objectSelector: {matchExpressions: [{key: helm.sh/chart, operator: Exists}]}}"), "spec.matchResources.objectSelector: asks for the label helm.sh/chart"},
		"a version":               {manifests(ok+"\nmatchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: [v1], operations: ['*'], resources: ['*']}]}", ""), `names the versions ["v1"]`},
		"a scope":                 {manifests(ok+"\nmatchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*'], scope: namespaced}]}", ""), `spec.matchConstraints.resourceRules: has the scope "namespaced": want Namespaced, Cluster or *`},
		"an excluded scope":       {manifests(ok, "matchResources: {excludeResourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*'], scope: cluster}]}"), `spec.matchResources.excludeResourceRules: has the scope "cluster"`},
		"a syntax error":          {manifests("validations: [{expression: object.spec.plan ==}]", ""), "`object.spec.plan ==`: compilation failed: ERROR: <input>:1:20: Syntax error"},
		"another type":            {manifests("validations: [{expression: \"'x'\"}]", ""), "must evaluate to bool but got string"},
		"an unknown variable":     {manifests("validations: [{expression: variables.none}]", ""), "undefined field 'none'"},
		"a variable of itself":    {manifests(ok+"\nvariables: [{name: v, expression: variables.v}]", ""), "undefined field 'v'"},
		"params without a kind":   {manifests("validations: [{expression: params.x}]", ""), "undeclared reference to 'params'"},
		"no validations":          {manifests("failurePolicy: Fail", ""), "has neither validations nor auditAnnotations"},
		"a failure policy":        {manifests(ok+"\nfailurePolicy: Never", ""), `spec.failurePolicy: is "Never"`},
		"no rules":                {manifests(ok+"\nmatchConstraints: {}", ""), "name in resourceRules what it is about"},
		"no action":               {manifests(ok, "validationActions: []"), "spec.validationActions: is empty"},
		"Deny and Warn":           {manifests(ok, "validationActions: [Deny, Warn]"), "has both Deny and Warn"},
		"an unknown action":       {manifests(ok, "validationActions: [Shout]"), `has "Shout"`},
		"a field that is unknown": {manifests(ok+"\nvalidation: []", ""), `unknown field "spec.validation"`},
		"another version":         {strings.ReplaceAll(manifests(ok, ""), "k8s.io/v1", "k8s.io/v1beta1"), "policy.yaml:1: apiVersion is admissionregistration.k8s.io/v1beta1: write admissionregistration.k8s.io/v1"},
		"a mutating policy":       {strings.ReplaceAll(manifests(ok, ""), "kind: Validating", "kind: Mutating"), "is a MutatingAdmissionPolicy: only"},
		"a list":                  {"apiVersion: v1\nkind: List\nitems: []\n", "policy.yaml:2: is a List"},
		"a number for a text":     {manifests("validations: [{expression: 'false', message: no}]", ""), "cannot unmarshal bool into Go struct field Validation.spec.validations.message of type string"},
		"no object":               {"a: b\n", "policy.yaml:1: is no Kubernetes object"},
		"no YAML":                 {"# why\na: [\n", "is not valid YAML"},
		"twice":                   {manifests(ok, "", strings.Split(manifests(ok, ""), "\n---")[0]), "is there twice"},
		"a ConfigMap of nowhere":  {manifests(ok+"\nparamKind: {apiVersion: v1, kind: ConfigMap}", "paramRef: {name: x, parameterNotFoundAction: Deny}", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}"), "ConfigMap x has no metadata.namespace"},
		"params of no name":       {manifests(ok+"\nparamKind: {apiVersion: v1, kind: ConfigMap}", "paramRef: {parameterNotFoundAction: Deny}"), "spec.paramRef: want either name or selector"},
		"params without action":   {manifests(ok+"\nparamKind: {apiVersion: v1, kind: ConfigMap}", "paramRef: {name: x}"), "parameterNotFoundAction: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := compile(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAPolicyOfAdmissionAloneIsLeftToIt(t *testing.T) {
	t.Parallel()
	text := strings.Replace(manifests("validations: [{expression: request.userInfo.username == ''}]", ""), "{name: p}", "{name: p, labels: {gitbind.dev/gate: Admission}}", 1)
	s, err := compile(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"p"}, s.AdmissionOnly()); diff != "" || len(s.Policies()) != 0 {
		t.Errorf("%v %s", s.Policies(), diff)
	}
}

func TestAProblemIsTold(t *testing.T) {
	t.Parallel()
	text := "# about\n---\n# more\n" + manifests("validations:\n- expression: object.spec.plan == 'x'\n  messageExpression: >-\n    'a' + request.userInfo.username\n- expression: object.status.x", "")
	_, err := compile(text)
	want := "policy.yaml:10: ValidatingAdmissionPolicy p: spec.validations[0].messageExpression: `'a' + request.userInfo.username` uses request.userInfo: " +
		"of request, every gate knows name, namespace, operation, kind, resource, subResource, requestKind, requestResource, requestSubResource; " +
		"or label the policy gitbind.dev/gate: Admission, so that API servers alone judge by it\n" +
		"policy.yaml:12: ValidatingAdmissionPolicy p: spec.validations[1].expression: `object.status.x` uses object.status: " +
		"of a claim, every gate knows apiVersion, kind, metadata, spec; or label the policy gitbind.dev/gate: Admission, so that API servers alone judge by it"
	if err == nil {
		t.Fatal("not refused")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheDocumentsOfAFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]evaluator.File{
		"":                              nil,
		"# about\n---\n---\n# more\n":   nil,
		"a: 1\n":                        {{Data: []byte("a: 1\n")}},
		"---\na: '---'\n ---\n---b: 2":  {{Data: []byte("\na: '---'\n ---\n---b: 2"), Before: 0}},
		"a: 1\r\n---\r\nb: 2\r\n":       {{Data: []byte("a: 1\r\n")}, {Data: []byte("\nb: 2\r\n"), Before: 1}},
		"a: 1\n--- # x\nb: 2\n--- \nc:": {{Data: []byte("a: 1\n")}, {Data: []byte("# x\nb: 2\n"), Before: 1}, {Data: []byte("\nc:"), Before: 3}},
		"a: 1\n--- {b: 2}\n---\t{c: 3}": {{Data: []byte("a: 1\n")}, {Data: []byte("{b: 2}\n"), Before: 1}, {Data: []byte("{c: 3}"), Before: 2}},
	} {
		if diff := cmp.Diff(want, evaluator.Documents(evaluator.File{Data: []byte(text)})); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
	again := evaluator.Documents(evaluator.File{Data: []byte("a: 1\n---\nb: 2"), Before: 5})
	if diff := cmp.Diff(again[1:], evaluator.Documents(again[1])); diff != "" || again[1].Before != 6 {
		t.Errorf("a document of a document is after %d lines: %s", again[1].Before, diff)
	}
}

func TestAPolicyWithoutABindingIsNamed(t *testing.T) {
	t.Parallel()
	s, err := compile(strings.Split(manifests("validations: [{expression: 'false'}]", ""), "\n---")[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"p"}, s.Unbound()); diff != "" {
		t.Error(diff)
	}
	v, err := s.Evaluate(t.Context(), evaluator.Change{Resource: databases, Object: database("small")})
	if err != nil || !v.Allowed() {
		t.Errorf("%+v %v", v, err)
	}
}

func TestAPolicyThatDeniesNoClaimOfAnAPIIsNamed(t *testing.T) {
	t.Parallel()
	const never = "validations: [{expression: 'false'}]"
	rules := func(group, version, resource, operation, more string) string {
		return fmt.Sprintf("resourceRules: [{apiGroups: [%s], apiVersions: [%s], operations: [%s], resources: [%s]%s}]", group, version, operation, resource, more)
	}
	for name, c := range map[string]struct {
		match, binding string
		idle           bool
	}{
		"the API":                         {rules("example.org", "v1", "databases", "CREATE", ""), "[Deny]", false},
		"all there are":                   {rules("'*'", "'*'", "'*'", "'*'", ""), "[Audit, Deny]", false},
		"some of its claims":              {rules("example.org", "v1", "databases", "UPDATE", ", resourceNames: [orders]"), "[Deny]", false},
		"all but some of its claims":      {rules("'*'", "'*'", "'*'", "'*'", "") + ", excludeR" + rules("'*'", "'*'", "'*'", "'*'", ", resourceNames: [orders]")[1:], "[Deny]", false},
		"another group":                   {rules("anynines.com", "v1", "databases", "'*'", ""), "[Deny]", true},
		"another version":                 {rules("example.org", "v2", "databases", "'*'", ""), "[Deny]", true},
		"another resource":                {rules("example.org", "v1", "backups", "'*'", ""), "[Deny]", true},
		"cluster-scoped objects":          {rules("example.org", "v1", "databases", "'*'", ", scope: Cluster"), "[Deny]", true},
		"deletes":                         {rules("example.org", "v1", "databases", "DELETE", ""), "[Deny]", true},
		"all but the API":                 {rules("'*'", "'*'", "'*'", "'*'", "") + ", excludeR" + rules("example.org", "'*'", "'*'", "'*'", "")[1:], "[Deny]", true},
		"a binding of another group":      {rules("'*'", "'*'", "'*'", "'*'", ""), "[Deny], matchResources: {" + rules("anynines.com", "'*'", "'*'", "'*'", "") + "}", true},
		"a binding that warns and audits": {rules("'*'", "'*'", "'*'", "'*'", ""), "[Warn, Audit]", true},
	} {
		s, err := compile("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec: {matchConstraints: {matchPolicy: Exact, " + c.match + "}, " + never + "}\n---\n" +
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: p}\nspec: {policyName: p, validationActions: " + c.binding + "}")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if idle := s.Idle(databases); slices.Contains(idle, "p") != c.idle {
			t.Errorf("%s: idle are %q", name, idle)
		}
	}
}
