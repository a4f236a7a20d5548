package apiservicebinding

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/policies/bound"
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
	for reason, err := range map[string]error{
		"Installed":     nil,
		"Forbidden":     apierrors.NewForbidden(gr, "p", nil),
		"PolicyRefused": apierrors.NewInvalid(schema.GroupKind{}, strings.Repeat("ä", 40000), nil),
	} {
		w := newWorld(t)
		w.turnedOn()
		if err != nil {
			w.fails(err)
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
	w := newWorld(t)
	w.turnedOn()
	w.fails(apierrors.NewInternalError(context.DeadlineExceeded))
	objects := offeredPolicy(t, "strict")
	if err := w.installPolicies(t.Context(), &look{binding: w.binding, policies: &objects}); err == nil {
		t.Error("trouble that passes is no error")
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
