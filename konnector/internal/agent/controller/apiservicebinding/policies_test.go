package apiservicebinding

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/policies/bound"
	"gitbind.dev/test/fakeapi"
)

// offeredPolicy is a policy with its binding.
func offeredPolicy(t *testing.T, name string) (out []runtime.RawExtension) {
	t.Helper()
	for _, text := range []string{
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: %[1]s}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, validations: [{expression: "false"}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %[1]s}, spec: {policyName: %[1]s, validationActions: [Deny]}}`,
	} {
		raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, text, name))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, runtime.RawExtension{Raw: raw})
	}
	return out
}

// turnedOn makes what a person installs.
func (w *world) turnedOn() {
	w.Helper()
	for _, b := range bound.Bindings("anynines.com", "postgresqlinstances") {
		if err := w.Client.Create(w.Context(), b); err != nil {
			w.Fatal(err)
		}
	}
}

// fails has the API server answer a write of a policy with an error.
func (w *world) fails(err error) {
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*admissionv1.ValidatingAdmissionPolicy); ok {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
	})
}

func TestWhyAPolicyIsNotInstalledIsSaid(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}
	for _, c := range []struct {
		reason string
		err    error
	}{
		{"Installed", nil},
		{"Forbidden", apierrors.NewForbidden(gr, "p", nil)},
		{"PolicyRefused", apierrors.NewInvalid(schema.GroupKind{}, strings.Repeat("ä", 40000), nil)},
		// It gives no code, and the API server makes 400 of that.
		{"PolicyRefused", webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no"})},
	} {
		w, reason := newWorld(t), c.reason
		w.turnedOn()
		if c.err != nil {
			w.fails(c.err)
		}
		objects := offeredPolicy(t, "strict")
		l := &look{binding: w.binding, policies: &objects}
		if err := w.installPolicies(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if l.judged.Reason != reason || !strings.Contains(l.judged.Message, "strict") || len(l.judged.Message) > maxJudged+10 {
			t.Errorf("it is %s: %s, want %s", l.judged.Reason, l.judged.Message, reason)
		}
	}
	t.Run("without the right to list them", func(t *testing.T) {
		w := newWorld(t)
		w.Live = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return apierrors.NewForbidden(gr, "", nil)
			},
		})
		objects := offeredPolicy(t, "strict")
		l := &look{binding: w.binding, policies: &objects}
		if err := w.installPolicies(t.Context(), l); err != nil || l.judged.Reason != "Forbidden" {
			t.Errorf("%+v, %v", l.judged, err)
		}
		if err := w.removePolicies(t.Context(), w.binding); err != nil {
			t.Error(err)
		}
	})
}

// TestAnAPIWorksWithoutItsPolicies: the claim controller is started, and does as the newest
// export says, also while a policy cannot be installed.
func TestAnAPIWorksWithoutItsPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		reason string
		retry  time.Duration
	}{
		"a webhook says no":            {webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no"}), "PolicyRefused", rightsEvery},
		"a webhook does not answer":    {fakeapi.WebhookFails("hook.example.org", "connection refused"), "NotInstalled", refusedWait},
		"somebody was there meanwhile": {apierrors.NewConflict(schema.GroupResource{}, "p", nil), "", conflictWait},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.turnedOn()
			w.granted(func(e *v1alpha1.APIServiceExport) {
				e.Status.Changes, e.Status.Policies = v1alpha1.ChangesPullRequest, offeredPolicy(t, "strict")
			})
			w.fails(c.err)
			l := w.look()
			api, missing, err := w.bind(t.Context(), l)
			if err != nil || missing != nil || !api.Review || !w.isRunning() {
				t.Fatalf("%+v, %v, review %v, running %v", missing, err, api.Review, w.isRunning())
			}
			result, err := w.report(t.Context(), l, api, missing)
			if err != nil || result.RequeueAfter != c.retry {
				t.Errorf("%+v, %v", result, err)
			}
			b := &v1alpha1.APIServiceBinding{}
			if err := w.Live.Get(t.Context(), client.ObjectKey{Name: binding}, b); err != nil {
				t.Fatal(err)
			}
			said := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionPolicies)
			if c.reason == "" && said == nil && b.Status.Changes == v1alpha1.ChangesPullRequest {
				return
			}
			if said == nil || said.Reason != c.reason || !strings.Contains(said.Message, "strict: ") || b.Status.Changes != v1alpha1.ChangesPullRequest {
				t.Errorf("it says %+v, and changes %q", said, b.Status.Changes)
			}
		})
	}
}

// TestAPolicyThatCannotBeInstalledKeepsNoOtherFromIt: and an earlier one goes as far as it
// can be removed.
func TestAPolicyThatCannotBeInstalledKeepsNoOtherFromIt(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string]bool{"a webhook says no": true, "a webhook does not answer": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.turnedOn()
			no, reason := fakeapi.WebhookFails("hook.example.org", "connection refused"), "NotInstalled"
			if denied {
				reason = "Forbidden"
				no = webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no"})
			}
			three := slices.Concat(offeredPolicy(t, "one"), offeredPolicy(t, "two"), offeredPolicy(t, "three"))
			if err := w.installPolicies(t.Context(), &look{binding: w.binding, policies: &three}); err != nil {
				t.Fatal(err)
			}
			w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					if o.GetAnnotations()[v1alpha1.PolicyAnnotation] == "four" {
						return no
					}
					return c.Update(ctx, o, opts...)
				},
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return no },
			})
			two := slices.Concat(offeredPolicy(t, "four"), offeredPolicy(t, "five"))
			l := &look{binding: w.binding, policies: &two}
			if err := w.installPolicies(t.Context(), l); (err == nil) != denied {
				t.Error(err)
			}
			if !strings.Contains(l.judged.Message, "judges claims by five.") || !strings.Contains(l.judged.Message, bound.Names(binding)[2]) ||
				!strings.Contains(l.judged.Message, "four: ") || l.judged.Reason != reason {
				t.Errorf("%s: %s", l.judged.Reason, l.judged.Message)
			}
		})
	}
}

// TestPoliciesStayWhileTheExportCannotBeRead: what was installed counts on, also while what
// is there cannot be used.
func TestPoliciesStayWhileTheExportCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.turnedOn()
	installed := func() int {
		t.Helper()
		var all admissionv1.ValidatingAdmissionPolicyList
		if err := w.Client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	install := func(objects *[]runtime.RawExtension) *look {
		t.Helper()
		l := &look{binding: w.binding, policies: objects}
		if err := w.installPolicies(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	both := append(offeredPolicy(t, "one"), offeredPolicy(t, "two")...)
	install(&both)
	if n := installed(); n != 2 {
		t.Fatalf("%d policies", n)
	}
	if l := install(nil); installed() != 2 || l.judged != nil {
		t.Errorf("%d policies, and %+v", installed(), l.judged)
	}
	bad := both[:1]
	if l := install(&bad); installed() != 2 || l.judged.Reason != "PoliciesInvalid" {
		t.Errorf("%d policies, and %+v", installed(), l.judged)
	}
	second := both[2:]
	if l := install(&second); installed() != 1 || l.judged.Message != "This cluster's API server judges claims by two." {
		t.Errorf("%d policies, and %+v", installed(), l.judged)
	}
	c := w.Client
	w.Client = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
		},
	})
	w.binding.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPolicies}}
	if l := install(&[]runtime.RawExtension{}); installed() != 1 || l.judged.Reason != "Forbidden" {
		t.Errorf("%d policies, and %+v", installed(), l.judged)
	}
	w.Client = c
	if l := install(&[]runtime.RawExtension{}); installed() != 0 || l.judged.Reason != "" {
		t.Errorf("%d policies, and %+v", installed(), l.judged)
	}
}
