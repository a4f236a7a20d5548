package claim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/test/fakeapi"
)

// dryRun tries a file at the fixture's path, and gives what was called. Every write has to say
// that it is none.
func (f *fixture) dryRun(content string) (session.Trial, []string) {
	f.Helper()
	f.calls = nil
	p := session.Proposed{Path: f.path, Head: strings.Repeat("c", 40)}
	if content != "" {
		p.Data = []byte(content)
	}
	client := f.TenantObjects.(*dynamicfake.FakeDynamicClient)
	client.ClearActions()
	trial := f.DryRun(f.Context(), p)
	for _, action := range client.Actions() {
		var dryRun []string
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			dryRun = a.PatchOptions.DryRun
		case clienttesting.DeleteActionImpl:
			dryRun = a.DeleteOptions.DryRun
		}
		if !slices.Equal(dryRun, []string{metav1.DryRunAll}) {
			f.Errorf("%s %s with dryRun %q", action.GetVerb(), action.GetResource().Resource, dryRun)
		}
	}
	return trial, f.calls
}

// withNamespace has the claim namespace there, as the bridge makes it.
func (f *fixture) withNamespace(labels map[string]string) {
	f.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: f.Session.Cluster.ClaimNamespace("team-a"), Labels: labels, Annotations: map[string]string{tenant.NamespaceLabel: "team-a"},
	}}
	if _, err := f.Bridge.CoreV1().Namespaces().Create(f.Context(), n, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func ours(f *fixture) map[string]string {
	return map[string]string{tenant.ClusterLabel: f.Session.Cluster.ID, tenant.ClusterUIDLabel: f.Session.Cluster.UID}
}

func TestADryRunSaysWhatAMergeWouldSay(t *testing.T) {
	for name, c := range map[string]struct {
		content          string
		err              error
		noRights         bool
		refused, untried string
		transient        bool
	}{
		"it would be taken":           {content: good},
		"a policy":                    {content: good, err: fakeapi.PolicyDenies(resource.GroupResource(), "orders", "p", "no nano"), refused: "no nano"},
		"a quota":                     {content: good, err: forbids, refused: "forbidden"},
		"a webhook":                   {content: good, err: webhookerrors.ToStatusErr("x", &metav1.Status{Message: "no nano"}), refused: "no nano"},
		"no rights yet":               {content: good, err: forbids, noRights: true, untried: "this cluster has no right on " + binding + " on the control plane (yet)", transient: true},
		"a webhook with side effects": {content: good, err: webhookerrors.NewDryRunUnsupportedErr("x"), untried: "does not support dry run"},
		"a webhook that is down":      {content: good, err: fakeapi.WebhookFails("x", "connection refused"), untried: "could not take it (InternalError)", transient: true},
		"no API server":               {content: good, err: errors.New("connection refused"), untried: "the control plane does not answer", transient: true},
		"somebody writes beside it":   {content: good, err: apierrors.NewConflict(resource.GroupResource(), "orders", errors.New("modified")), untried: errStale.Error(), transient: true},
		"a file that is none":         {content: "{", refused: "YAML"},
		"another one's namespace":     {content: strings.Replace(good, "team-a", "team-b", 1), refused: `metadata.namespace is "team-b", but the path says "team-a"`},
		"another API":                 {content: strings.Replace(good, "anynines.com/v1", "v1", 1), refused: "apiVersion"},
	} {
		f := start(t)
		f.withNamespace(ours(f))
		f.patch, f.allowed = func() error { return c.err }, !c.noRights
		got, _ := f.dryRun(c.content)
		if (got.Refused != "") != (c.refused != "") || !strings.Contains(got.Refused, c.refused) || (got.Untried != "") != (c.untried != "") || !strings.Contains(got.Untried, c.untried) || got.Transient != c.transient {
			t.Errorf("%s: %+v", name, got)
		}
		if (len(got.Fields) > 0) != (c.refused+c.untried == "") {
			t.Errorf("%s: fields %+v", name, got.Fields)
		}
	}
}

func TestADryRunMakesNoNamespaceAndUsesNobodyElses(t *testing.T) {
	f := start(t)
	if got, calls := f.dryRun(good); !strings.Contains(got.Untried, "nothing of namespace team-a yet") || len(calls) > 0 {
		t.Errorf("without a namespace: %+v, %v", got, calls)
	}
	if all, err := f.Bridge.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("namespaces %v, %v", all.Items, err)
	}
	f.withNamespace(map[string]string{tenant.ClusterLabel: "another"})
	if got, calls := f.dryRun(good); !strings.Contains(got.Untried, "is not this cluster's") || len(calls) > 0 {
		t.Errorf("in another one's namespace: %+v, %v", got, calls)
	}
}

func TestADryRunShowsNothingOfForeignObjects(t *testing.T) {
	f := start(t)
	f.withNamespace(ours(f))
	f.live = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"plan": "of somebody else"}}}
	f.live.SetNamespace(f.Session.Cluster.ClaimNamespace("team-a"))
	f.live.SetName("orders")
	for content, refused := range map[string]string{good: "that is not this claim's", "": ""} {
		got, calls := f.dryRun(content)
		if !strings.Contains(got.Refused, refused) || len(got.Fields) > 0 || slices.Contains(calls, "apply") || slices.Contains(calls, "delete") {
			t.Errorf("%q: %+v, %v", content, got, calls)
		}
	}
}

func TestARemovalIsTriedOnTheObjectThatIsThere(t *testing.T) {
	f := start(t)
	f.step()
	if got, calls := f.dryRun(good); got.Refused+got.Untried != "" || len(got.Fields) > 0 || slices.Contains(calls, "apply") || slices.Contains(calls, "delete") {
		t.Errorf("what is applied already: %+v, %v", got, calls)
	}
	if got, calls := f.dryRun(""); got.Refused+got.Untried != "" || !slices.Contains(calls, "delete") {
		t.Errorf("%+v, %v", got, calls)
	}
	f.patch = func() error { return forbids }
	if got, _ := f.dryRun(""); !strings.Contains(got.Refused, "forbidden") {
		t.Errorf("%+v", got)
	}
	if f.live = nil; len(f.others) > 0 {
		t.Fatal("there are others")
	}
	if got, calls := f.dryRun(""); got.Refused+got.Untried != "" || slices.Contains(calls, "delete") {
		t.Errorf("of one that has no object: %+v, %v", got, calls)
	}
}

// The bridge may not read an object: that is no word on the file.
func TestADryRunDoesNotBlameTheFileForTheBridgesOwnRights(t *testing.T) {
	f := start(t)
	f.withNamespace(ours(f))
	f.BridgeObjects.(*dynamicfake.FakeDynamicClient).PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), "orders", errors.New(`User "system:serviceaccount:gitbind-system:gitbridge" cannot get`))
	})
	if got, _ := f.dryRun(good); got.Refused != "" || got.Untried != "the bridge cannot look at what is there (Forbidden)" || !got.Transient {
		t.Errorf("%+v", got)
	}
}

// What the API server refuses when it is empty is not called fine because it may be left out.
func TestADryRunOfAnEmptiedFieldIsNotFineBecauseItCouldBeLeftOut(t *testing.T) {
	f := start(t)
	const full = good + "  parameters: {max_connections: 5}\n"
	f.push(full)
	f.follow()
	if a, calls, _ := f.step(); a.Result != contract.Applied {
		t.Fatalf("%+v %v", a, calls)
	}
	invalid := apierrors.NewInvalid(kind.GroupKind(), "orders", field.ErrorList{field.Invalid(field.NewPath("spec"), "", "parameters may be left out, but not be empty")})
	f.TenantObjects.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), `"parameters":{}`) {
			return true, nil, invalid
		}
		return false, nil, nil
	})
	got, _ := f.dryRun(good + "  parameters: {}\n")
	if got.Refused != "" || !strings.Contains(got.Untried, "of two steps only the first") || got.Transient {
		t.Errorf("%+v", got)
	}
}
