package app_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// platformAdmits has the control plane's own admission refuse some claims of a tenant, and
// change all others.
func (t *tenant) platformAdmits(api v1alpha1.ExportedAPI) {
	t.Helper()
	match := &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{api.Group}, APIVersions: []string{"*"}, Resources: []string{api.Resource}},
	}}}}
	conditions := []admissionv1.MatchCondition{{Name: "tenant", Expression: fmt.Sprintf("object.metadata.namespace.startsWith('gb-%s-')", t.id)}}
	named := metav1.ObjectMeta{Name: t.id}
	mutation := "Object{metadata: Object.metadata{labels: {'example.com/cost-center': '7'}}}"
	for _, o := range []client.Object{
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: match, MatchConditions: conditions,
			Validations: []admissionv1.Validation{{Expression: "!object.spec.plan.endsWith('-nano')", Message: "nano is not for production"}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: t.id, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
		&admissionv1.MutatingAdmissionPolicy{ObjectMeta: named, Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: match, MatchConditions: conditions, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: mutation}}},
		}},
		&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: t.id}},
	} {
		t.must(t.admin.Create(t.Context(), o))
	}
}

// asks asks for a dry run, as the backend does.
func (t *tenant) asks(head string, claims map[string]string) {
	t.Helper()
	d := &v1alpha1.DryRun{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(t.id), Name: "change"}}
	err := t.admin.Get(t.Context(), client.ObjectKeyFromObject(d), d)
	d.Spec = v1alpha1.DryRunSpec{Branch: "changes/x", Change: v1alpha1.ProposedChange{Head: head, Effect: "e"}, AskedAt: metav1.Now()}
	for path, content := range claims {
		d.Spec.Claims = append(d.Spec.Claims, v1alpha1.ProposedClaim{Path: path, Content: content})
	}
	if apierrors.IsNotFound(err) {
		t.must(t.admin.Create(t.Context(), d))
		return
	}
	t.must(t.admin.Update(t.Context(), d))
}

// tried waits for the answer about a commit, by path.
func (t *tenant) tried(head string) map[string]v1alpha1.TriedClaim {
	t.Helper()
	out := map[string]v1alpha1.TriedClaim{}
	t.eventually("it is tried", func() error {
		var d v1alpha1.DryRun
		t.must(t.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id), Name: "change"}, &d))
		if !d.IsAnswered() {
			return errors.New("not yet")
		}
		if d.Status.Change.Head != head {
			t.Fatalf("it answers %+v, want %s", d.Status, head)
		}
		for _, c := range d.Status.Claims {
			out[c.Path] = c
		}
		return nil
	})
	return out
}

// TestWhatTheControlPlaneWouldSayIsKnownBeforeAMerge has the API server's own rules, of which a
// review knows nothing, judge and change claims that main does not have; and nothing is written.
func TestWhatTheControlPlaneWouldSayIsKnownBeforeAMerge(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.startBridge()
	t, other := w.tenant(api), w.tenant(api)
	orders, second, tiny := path(api, "team-a", "orders"), path(api, "team-a", "second"), path(api, "team-a", "tiny")
	t.push("Order", map[string]string{orders: manifest(orders, small)})
	other.push("Order", map[string]string{orders: manifest(orders, small)})
	t.wantAnswer(orders, contract.Applied)
	other.wantAnswer(orders, contract.Applied)
	t.platformAdmits(api)
	before := t.object(orders)

	elsewhere := path(api, "team-z", "orders")
	claims := map[string]string{
		orders:                       manifest(orders, nano),
		second:                       manifest(second, small),
		tiny:                         manifest(tiny, nano),
		elsewhere:                    manifest(elsewhere, small),
		path(api, "team-a", "third"): manifest(path(api, "team-b", "third"), small),
		path(api, "team-a", "bad"):   "{",
		"bindings/unknown.example.com/claims/team-a/x.yaml": "x",
	}
	var got map[string]v1alpha1.TriedClaim
	n := 0
	t.eventually("the platform's rules are in force", func() error {
		n++
		t.asks(fmt.Sprint(n), claims)
		got = t.tried(fmt.Sprint(n))
		if !strings.Contains(got[tiny].Refused, "nano is not for production") || !strings.Contains(fmt.Sprint(got[second].Fields), "cost-center") {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	var fields []string
	for _, f := range got[second].Fields {
		fields = append(fields, f.Field+"="+f.Before+">"+f.After)
	}
	want := []string{
		"apiVersion=>anynines.com/v1", `metadata.labels["example.com/cost-center"]=>7`, "spec.compositeDeletePolicy=>Foreground", "spec.expose=>Internal",
		"spec.plan=>postgresql-single-small", "spec.service=>a9s-postgresql13",
	}
	if d := cmp.Diff(want, fields); d != "" || got[second].Refused != "" {
		w.Errorf("a new claim (-want +got):\n%s%+v", d, got[second])
	}
	for path, words := range map[string]string{orders: "plan cannot become smaller", path(api, "team-a", "third"): "metadata.namespace is", path(api, "team-a", "bad"): "YAML"} {
		if got[path].Refused == "" || !strings.Contains(got[path].Refused, words) {
			w.Errorf("%s: %+v, want %q", path, got[path], words)
		}
	}
	for path, words := range map[string]string{elsewhere: "nothing of namespace team-z yet", "bindings/unknown.example.com/claims/team-a/x.yaml": "not bound"} {
		if got[path].Refused != "" || !strings.Contains(got[path].Untried, words) {
			w.Errorf("%s: %+v, want %q", path, got[path], words)
		}
	}
	// What the platform adds to a service that is there is seen, too; what is applied already changes nothing.
	t.asks("larger", map[string]string{orders: manifest(orders, strings.Replace(small, "small", "medium", 1))})
	if c := t.tried("larger")[orders]; c.Refused != "" || len(c.Fields) != 2 || c.Fields[0].Before != "postgresql-single-small" || c.Fields[1].After != "7" {
		w.Errorf("a larger plan: %+v", c)
	}
	t.asks("same", map[string]string{orders: manifest(orders, small)})
	if c := t.tried("same")[orders]; c.Refused+c.Untried != "" || len(c.Fields) > 0 {
		w.Errorf("the same file: %+v", c)
	}
	t.asks("removed", map[string]string{orders: ""})
	if c := t.tried("removed")[orders]; c.Refused != "" || c.Untried != "" || len(c.Fields) > 0 {
		w.Errorf("a removal: %+v", c)
	}
	// A quota of Kubernetes' own is the platform's word as well.
	namespace := before.GetNamespace()
	w.must(w.admin.Create(w.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourceName("count/" + api.BindingName()): resource.MustParse("0")},
	}}))
	t.eventually("the quota is in force", func() error {
		n++
		t.asks(fmt.Sprint(n), map[string]string{second: manifest(second, small)})
		if c := t.tried(fmt.Sprint(n))[second]; !strings.Contains(c.Refused, "quota") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	// Nothing was written.
	if after := t.object(orders); after == nil || after.GetResourceVersion() != before.GetResourceVersion() {
		w.Errorf("the service changed: %v", after)
	}
	if t.object(second) != nil {
		w.Error("a claim that was only tried has an object")
	}
	var ns corev1.Namespace
	if err := w.admin.Get(w.Context(), client.ObjectKey{Name: strings.TrimSuffix(namespace, "team-a") + "team-z"}, &ns); !apierrors.IsNotFound(err) {
		w.Errorf("a namespace of a claim that was only tried: %v", err)
	}
	// One that nobody asked for since a day goes.
	var d v1alpha1.DryRun
	key := client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id), Name: "change"}
	w.must(w.admin.Get(w.Context(), key, &d))
	d.Spec.AskedAt = metav1.NewTime(time.Now().Add(-25 * time.Hour))
	w.must(w.admin.Update(w.Context(), &d))
	t.eventually("an old one is deleted", func() error {
		if err := w.admin.Get(w.Context(), key, &d); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
}

// What was asked while another shard had the cluster, or before the bridge knew that it has it.
func TestADryRunIsAnsweredWhenItsClusterComesToTheShard(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	t := w.tenant(api)
	t.move("b")
	w.startBridge()
	orders := path(api, "team-a", "orders")
	claims := map[string]string{orders: manifest(orders, small)}
	t.asks("1", claims)
	// The bridge has seen it when another cluster's, which was asked later, is answered.
	other := w.tenant(api)
	other.push("Order", claims)
	other.wantAnswer(orders, contract.Applied)
	other.asks("1", claims)
	other.tried("1")
	t.move(v1alpha1.DefaultShard)
	t.wantShard(v1alpha1.DefaultShard)
	t.push("Order", claims)
	t.wantAnswer(orders, contract.Applied)
	t.tried("1")
}

// A bridge that is newer than the definitions works without dry runs.
func TestABridgeWorksWithoutTheDefinitionOfDryRuns(test *testing.T) {
	w := newWorld(test)
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "dryruns.gitbind.dev"}}
	w.must(w.admin.Delete(w.Context(), definition))
	w.eventually("the definition is gone", func() error {
		if err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(definition), definition); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	api := w.define(postgresqlFile)
	w.startBridge()
	t := w.tenant(api)
	orders := path(api, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, small)})
	t.wantAnswer(orders, contract.Applied)
}
