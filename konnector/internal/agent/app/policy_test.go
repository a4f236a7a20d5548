package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/policy"
	"gitbind.dev/policies/bound"
	"gitbind.dev/policies/evaluator"
)

const (
	plansPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: plans}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]
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
	// hostilePolicy is against everything in the cluster.
	hostilePolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: everything, labels: {gitbind.dev/gate: Admission}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]
  validations: [{expression: "false", message: nothing is good enough}]
`
	hostileBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everything}
spec: {policyName: everything, validationActions: [Deny]}
`
)

func (w *world) plans(list string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plans, namespace: " + w.namespace + "}\ndata: {plans: \"" + list + "\"}\n"
}

func objects(t *testing.T, texts ...string) (out []runtime.RawExtension) {
	t.Helper()
	for _, text := range texts {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, runtime.RawExtension{Raw: raw})
	}
	return out
}

// offerPolicies publishes the export with policies.
func (w *world) offerPolicies(texts ...string) {
	w.Helper()
	w.policies = objects(w.T, texts...)
	w.publish(nil)
}

// turnOn makes what turns the policies of the API on, as `kubectl gitbind bind` does.
func (w *world) turnOn() {
	w.Helper()
	for _, b := range bound.Bindings(w.group, w.plural) {
		w.must(w.client.Create(w.Context(), b))
	}
}

// admits waits until the API server takes or, with words, denies a claim, and gives its
// words.
func (w *world) admits(o *unstructured.Unstructured, words string) (message string) {
	w.Helper()
	w.eventually(o.GetName()+": "+words, func() error {
		u := o.DeepCopy()
		err := w.alice.Create(w.Context(), u, client.DryRunAll)
		switch {
		case words == "":
			return err
		case err == nil:
			return fmt.Errorf("it is taken")
		case !strings.Contains(err.Error(), words):
			return fmt.Errorf("it says %w", err)
		}
		message = err.Error()
		return nil
	})
	return message
}

func (w *world) policyAt(place int) *admissionv1.ValidatingAdmissionPolicy {
	w.Helper()
	p := &admissionv1.ValidatingAdmissionPolicy{}
	err := w.client.Get(w.Context(), client.ObjectKey{Name: bound.Names(w.binding)[place-1]}, p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return p
}

func (w *world) noPolicyAt(place int) {
	w.Helper()
	w.eventually(fmt.Sprintf("no policy %d", place), func() error {
		if p := w.policyAt(place); p != nil {
			return fmt.Errorf("it is there: %v", p.Annotations)
		}
		return nil
	})
}

// TestE10_TheAppClustersAPIServerSaysWhatTheOfferSays plays the first gate: kubectl is told
// what a review and the bridge would say, and what comes from Git is left to the bridge.
func TestE10_TheAppClustersAPIServerSaysWhatTheOfferSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.turnOn()
	w.offerPolicies(plansPolicy, plansBinding, w.plans("small,medium"))
	w.loopPublished()
	if m := w.bindingSays("Policies", "Installed"); m != "This cluster's API server judges claims by plans." {
		t.Errorf("message %q", m)
	}
	words := w.admits(w.object("orders", spec("big")), "denied request")

	t.Run("in the words of the other gates", func(t *testing.T) {
		set, err := policy.Compile(w.policies)
		w.must(err)
		o := w.object("orders", spec("big"))
		v, err := set.Judge(t.Context(), evaluator.Change{Resource: schema.GroupVersionResource{Group: w.group, Version: "v1", Resource: w.plural}, Object: o})
		w.must(err)
		if len(v.Denials) != 1 || !strings.HasSuffix(words, "denied request: "+v.Denials[0].Message) {
			t.Errorf("it says %q, a review %v", words, v.Denials)
		}
	})
	t.Run("by the parameters of the namespace, and with none as the offer says", func(*testing.T) {
		w.apply("orders", spec("small"))
		w.committed("orders")
		elsewhere := w.object("orders", spec("small"))
		elsewhere.SetNamespace("default")
		w.admits(elsewhere, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
	})
	t.Run("what comes from Git is the bridge's to judge", func(*testing.T) {
		w.commit("orders", "service: a9s-postgresql13", "plan: big")
		w.objectIs("orders", plan("big"))
		w.committed("orders")
	})
	t.Run("a policy that changes is followed, and what stays as it is passes", func(*testing.T) {
		w.offerPolicies(strings.NewReplacer("everything", "strict", ", labels: {gitbind.dev/gate: Admission}", "").Replace(hostilePolicy), strings.ReplaceAll(hostileBinding, "everything", "strict"))
		w.admits(w.object("sales", spec("small")), "nothing is good enough")
		w.edit("orders", func(u *unstructured.Unstructured) {
			annotations := u.GetAnnotations()
			annotations["tool.example.org/seen"] = "today"
			u.SetAnnotations(annotations)
		})
		w.eventually("another label is denied", func() error {
			u := w.get("orders")
			u.SetLabels(map[string]string{"team": "a"})
			err := w.alice.Update(t.Context(), u)
			if apierrors.IsConflict(err) {
				return err
			}
			if err == nil || !strings.Contains(err.Error(), "nothing is good enough") {
				t.Errorf("another label: %v", err)
			}
			return nil
		})
	})
	t.Run("no delete is denied", func(*testing.T) {
		w.deleteObject("orders")
		w.goes("orders")
	})
	t.Run("an offer without policies has none here", func(*testing.T) {
		w.offerPolicies()
		w.noPolicyAt(1)
		w.admits(w.object("sales", spec("big")), "")
		w.eventually("no condition", func() error {
			if c := meta.FindStatusCondition(w.getBinding().Status.Conditions, v1alpha1.ConditionPolicies); c != nil {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
	})
}

// TestE10_AHostileExportReachesNothingBesideTheBoundAPI offers a policy against everything,
// and has the konnector's own rights used for what its code would not do.
func TestE10_AHostileExportReachesNothingBesideTheBoundAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.turnOn()
	w.offerPolicies(hostilePolicy, hostileBinding)
	w.begin()
	w.bindingIs("Bound")
	w.bindingSays("Policies", "Installed")
	w.admits(w.object("orders", spec("small")), "nothing is good enough")
	others := func() {
		t.Helper()
		for _, o := range []client.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "any"}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "any"}},
			namespace("any-" + w.name),
			&v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: w.connection.Spec},
		} {
			if err := w.alice.Create(t.Context(), o, client.DryRunAll); err != nil {
				t.Errorf("%T: %v", o, err)
			}
		}
	}
	others()

	as, err := client.New(w.konnector, client.Options{Scheme: w.client.Scheme()})
	w.must(err)
	t.Run("who has the konnector's rights turns on nothing else", func(t *testing.T) {
		// As it is in the object's data.
		const secret = "aHVudGVyMg=="
		w.must(w.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "theirs"}, StringData: map[string]string{"password": "hunter2"}}))
		w.stop()
		// The API server's own controllers write the status of a policy.
		w.eventually("the policy is another one", func() error {
			leaks := w.policyAt(1)
			leaks.Spec.MatchConditions = nil
			leaks.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
			}}}}
			leaks.Spec.Validations = []admissionv1.Validation{{Expression: "false", MessageExpression: "'it was: ' + string(oldObject.?data.?password.orValue('nothing'))"}}
			return as.Update(t.Context(), leaks)
		})
		w.admits(w.object("orders", spec("small")), "it was: nothing")
		others()
		err := as.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "theirs"}}, client.RawPatch("application/merge-patch+json", []byte("{}")), client.DryRunAll)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("a Secret was seen: %v", err)
		}
		binding := bound.Bindings(w.group, w.plural)[0]
		if err := as.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gitbind-konnector-secrets"}}); !apierrors.IsForbidden(err) {
			t.Errorf("it deletes the policy that narrows it: %v", err)
		}
		binding.Name += "0"
		if err := as.Create(t.Context(), binding); !apierrors.IsForbidden(err) {
			t.Errorf("it turns on a policy: %v", err)
		}
	})
	w.start()
	t.Run("what asks for more than other gates know is refused", func(*testing.T) {
		w.offerPolicies(strings.NewReplacer(", labels: {gitbind.dev/gate: Admission}", "", `"false"`, `"request.userInfo.username != 'alice'"`).Replace(hostilePolicy), hostileBinding)
		if m := w.bindingSays("Policies", "PoliciesInvalid"); !strings.Contains(m, "request.userInfo") {
			t.Errorf("message %q", m)
		}
	})
}

// TestE10_WithoutRightsOnPoliciesTheAPIWorks has a konnector whose rights are those of an
// earlier version.
func TestE10_WithoutRightsOnPoliciesTheAPIWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := &rbacv1.ClusterRole{}
	w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "gitbind-konnector"}, role))
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "validatingadmissionpolicies") })
	w.must(w.client.Update(t.Context(), role))
	w.konnectorMay(authorizationv1.ResourceAttributes{Verb: "list", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}, false)
	w.turnOn()
	w.offerPolicies(plansPolicy, plansBinding, w.plans("small"))
	w.loopPublished()
	if m := w.bindingSays("Policies", "Forbidden"); !strings.Contains(m, "kubectl gitbind connect") {
		t.Errorf("message %q", m)
	}
	w.apply("orders", spec("big"))
	w.committed("orders")
}

// TestE10_InstalledPoliciesAreTheBindings: what is there belongs to the binding, comes back,
// goes with it, and replaces no other.
func TestE10_InstalledPoliciesAreTheBindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: bound.Names(w.binding)[1]}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: bound.Bindings(w.group, w.plural)[0].Spec.MatchResources,
		Validations:      []admissionv1.Validation{{Expression: "true", Message: "mine"}},
	}}
	w.must(w.client.Create(t.Context(), foreign))
	second := strings.NewReplacer("everything", "second", ", labels: {gitbind.dev/gate: Admission}", "", `"false"`, `"true"`)
	w.offerPolicies(plansPolicy, plansBinding, w.plans("small"), second.Replace(hostilePolicy), second.Replace(hostileBinding))
	w.loopPublished()

	if m := w.bindingSays("Policies", "NotTurnedOn"); !strings.Contains(m, "kubectl gitbind bind") {
		t.Errorf("message %q", m)
	}
	if w.policyAt(1) != nil {
		t.Error("a policy is there that nothing turns on")
	}
	w.turnOn()
	w.patchBinding(`{"metadata":{"labels":{"again":"please"}}}`)
	// A look that began before the last was turned on knows only some.
	w.eventually("one policy is installed, and the other is somebody else's", func() error {
		m := w.bindingSays("Policies", "PolicyConflict")
		if !strings.Contains(m, "judges claims by plans.") || !strings.Contains(m, foreign.Name+" exists and is somebody else's") {
			return fmt.Errorf("it says %q", m)
		}
		return nil
	})
	w.admits(w.object("orders", spec("big")), "plan big is not for namespace")
	p := w.policyAt(1)
	if p.Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByKonnector || p.Annotations[v1alpha1.PolicyAnnotation] != "plans" || p.OwnerReferences[0].UID != w.getBinding().UID {
		t.Errorf("it has %+v", p.ObjectMeta)
	}
	w.must(w.client.Delete(t.Context(), foreign))
	w.patchBinding(`{"metadata":{"labels":{"again":"and-again"}}}`)
	w.bindingSays("Policies", "Installed")

	w.must(w.alice.Delete(t.Context(), p))
	w.eventually("it is there again", func() error {
		if again := w.policyAt(1); again == nil || again.UID == p.UID {
			return fmt.Errorf("it is %v", again)
		}
		return nil
	})
	// The API server's own controllers write the status of a policy.
	w.eventually("somebody edits it", func() error {
		edited := w.policyAt(2)
		edited.Spec.Validations[0].Expression = "false"
		return w.alice.Update(t.Context(), edited)
	})
	w.eventually("an edit is set back", func() error {
		if p := w.policyAt(2); p.Spec.Validations[0].Expression != "true" {
			return fmt.Errorf("it says %s", p.Spec.Validations[0].Expression)
		}
		return nil
	})

	w.unbind()
	w.noRequest()
	w.answerRequest(contract.Applied, "")
	w.takenBack()
	for i, name := range bound.Names(w.binding) {
		w.noPolicyAt(i + 1)
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, &admissionv1.ValidatingAdmissionPolicyBinding{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}
