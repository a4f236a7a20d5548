package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// policies sets those of an API's template, each an object as YAML.
func (w *world) policies(api v1alpha1.ExportedAPI, objects ...string) {
	w.Helper()
	w.eventually("the policies are set", func() error {
		var t v1alpha1.APIServiceExportTemplate
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &t))
		t.Spec.Policies = nil
		for _, o := range objects {
			raw, err := yaml.YAMLToJSON([]byte(o))
			w.must(err)
			t.Spec.Policies = append(t.Spec.Policies, runtime.RawExtension{Raw: raw})
		}
		return w.admin.Update(w.Context(), &t)
	})
}

// wantPolicies waits for the condition PoliciesValid.
func (w *world) wantPolicies(api v1alpha1.ExportedAPI, status metav1.ConditionStatus, words string) {
	w.Helper()
	w.eventually("PoliciesValid is "+string(status), func() error {
		var t v1alpha1.APIServiceExportTemplate
		if err := w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &t); err != nil {
			return err
		}
		c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionPoliciesValid)
		if c == nil || c.Status != status || c.ObservedGeneration != t.Generation || !strings.Contains(c.Message, words) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// wantExported waits until an app cluster is given policies, as the names of objects say.
func (t *tenant) wantExported(api v1alpha1.ExportedAPI, names ...string) {
	t.Helper()
	t.eventually(fmt.Sprintf("%q are exported", names), func() error {
		e, err := t.exported(api)
		if err != nil {
			return err
		}
		var got []string
		for _, o := range e.Status.Policies {
			var m metav1.PartialObjectMetadata
			t.must(yaml.Unmarshal(o.Raw, &m))
			got = append(got, m.Name)
		}
		if !slices.Equal(got, names) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

const (
	// plansPolicy keeps the plan that a claim has.
	plansPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: plans}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]
  validations:
  - expression: object.spec.plan in params.data.plans.split(',') || oldObject != null && oldObject.spec.plan == object.spec.plan
    messageExpression: "'plan ' + object.spec.plan + ' is not for namespace ' + object.metadata.namespace"
`
	plansBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: plans}
spec: {policyName: plans, validationActions: [Deny], paramRef: {name: plans, parameterNotFoundAction: Deny}}
`
	strictPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: strict}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]
  validations: [{expression: "false", message: nothing is good enough}]
`
	strictBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: strict}
spec: {policyName: strict, validationActions: [Deny]}
`
	smallPlan = "  service: a9s-postgresql13\n  plan: postgresql-single-small"
	bigPlan   = "  service: a9s-postgresql13\n  plan: postgresql-single-big\n  parameters: {sharedBuffers: 1GB}"
)

// plans are the parameters of plansPolicy, in the app cluster's namespace.
func plans(list string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plans, namespace: team-a}\ndata: {plans: \"" + list + "\"}\n"
}

// TestTheBridgeAppliesNothingThatThePoliciesOfAnOfferDeny plays the third gate: what
// neither the app cluster's API server nor a review kept out.
func TestTheBridgeAppliesNothingThatThePoliciesOfAnOfferDeny(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.startBridge()
	t := w.tenant(api)
	before, orders, sales := path(api, "team-a", "before"), path(api, "team-a", "orders"), path(api, "team-a", "sales")
	t.push("Order", map[string]string{before: manifest(before, smallPlan)})
	t.wantAnswer(before, contract.Applied)

	w.policies(api, plansPolicy, plansBinding, plans("postgresql-single-nano"))
	w.wantPolicies(api, metav1.ConditionTrue, "claims are judged by plans")
	t.wantExported(api, "plans", "plans", "plans")
	t.push("Order two", map[string]string{orders: manifest(orders, smallPlan), sales: manifest(sales, nano)})
	s := t.wantAnswer(orders, contract.Denied, "ValidatingAdmissionPolicy 'plans' with binding 'plans' denied request: plan postgresql-single-small is not for namespace team-a")
	above, _, _ := strings.Cut(manifest(orders, smallPlan), "plan:")
	if s.Problem == nil || s.Problem.File != orders || s.Problem.Line != strings.Count(above, "\n")+1 {
		w.Errorf("problem %+v", s.Problem)
	}
	t.wantAnswer(sales, contract.Applied)
	if u := t.object(orders); u != nil {
		w.Errorf("it was applied: %v", u)
	}

	// What was there keeps its plan, and changes otherwise.
	t.push("Change it otherwise", map[string]string{before: manifest(before, smallPlan+"\n  parameters: {sharedBuffers: 1GB}")})
	t.wantAnswer(before, contract.Applied)
	t.wantObject(before, "spec.parameters.sharedBuffers", "1GB")
	t.push("Take a plan that is not for it", map[string]string{before: manifest(before, bigPlan)})
	t.wantAnswer(before, contract.Denied, "plan postgresql-single-big is not for namespace team-a")
	if plan, _, _ := unstructured.NestedString(t.object(before).Object, "spec", "plan"); plan != "postgresql-single-small" {
		w.Errorf("the object has plan %s", plan)
	}

	// Another policy is asked by itself.
	w.policies(api, plansPolicy, plansBinding, plans("postgresql-single-nano,postgresql-single-small,postgresql-single-big"))
	t.wantAnswer(orders, contract.Applied)
	t.wantAnswer(before, contract.Applied)
	t.wantObject(before, "spec.plan", "postgresql-single-big")

	// Whatever a policy says, what stays as it is stays, and what goes goes.
	w.policies(api, strictPolicy, strictBinding)
	w.wantPolicies(api, metav1.ConditionTrue, "strict")
	blob := t.answer(before).Answers.Blob
	t.push("Say why", map[string]string{before: "# for the shop\n" + manifest(before, bigPlan)})
	t.eventually("the comment is answered", func() error {
		if s := t.answer(before); s.Result != contract.Applied || s.Answers.Blob == blob {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	u := t.object(before).DeepCopy()
	w.must(unstructured.SetNestedField(u.Object, "2GB", "spec", "parameters", "sharedBuffers"))
	w.must(w.admin.Update(w.Context(), u))
	t.wantObject(before, "spec.parameters.sharedBuffers", "1GB")
	t.push("Change it", map[string]string{sales: manifest(sales, smallPlan)})
	t.wantAnswer(sales, contract.Denied, "nothing is good enough")
	t.push("Cancel it", map[string]string{sales: ""})
	t.wantAnswer(sales, contract.Gone)

	// Policies that cannot be used let nothing new through.
	for words, objects := range map[string][]string{
		"no ValidatingAdmissionPolicyBinding turns on strict": {strictPolicy},
		"spec.policies[0]":                      {strings.Replace(strictPolicy, `"false"`, `"object.spec."`, 1), strictBinding},
		"Secret team-a/s cannot be a parameter": {strictPolicy, strictBinding, "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: team-a}\n"},
		"authorizer":                            {strings.Replace(strictPolicy, `"false"`, `"authorizer.group('').resource('pods').check('get').allowed()"`, 1), strictBinding},
	} {
		w.policies(api, objects...)
		w.wantPolicies(api, metav1.ConditionFalse, words)
	}
	t.push("Order", map[string]string{sales: manifest(sales, nano)})
	t.wantAnswer(sales, contract.Failed, "has policies that cannot be used")
	t.wantExported(api)
	// What is too large for a file is the bridge's alone.
	w.policies(api, plansPolicy, plansBinding, plans("postgresql-single-nano"), strings.Replace(plans(strings.Repeat("x", 1<<20)), "name: plans", "name: large", 1))
	w.wantPolicies(api, metav1.ConditionTrue, "claims are judged by plans")
	t.eventually("the export says so", func() error {
		var e v1alpha1.APIServiceExport
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id), Name: api.BindingName()}, &e))
		if c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionPublished); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "policies are too large") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	t.wantExported(api)
	w.policies(api)
	t.wantAnswer(sales, contract.Applied)
}
