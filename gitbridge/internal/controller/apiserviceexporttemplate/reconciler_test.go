package apiserviceexporttemplate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// Bridges of all shards judge each template, at times of their own.
func TestBridgesOfManyShardsJudgeATemplateOnce(t *testing.T) {
	template := &v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.net"}}
	template.Spec.Transform = &v1alpha1.Transform{}
	c := fakeapi.New(fakeapi.Builder().WithObjects(template).WithStatusSubresource(template))
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	version := ""
	for range 3 {
		now = now.Add(time.Minute)
		r := &Reconciler{Client: c, Now: func() time.Time { return now }}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)}); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.APIServiceExportTemplate
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(template), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Status.Conditions) != 1 || version != "" && got.ResourceVersion != version {
			t.Errorf("written again: %s, %+v", got.ResourceVersion, got.Status)
		}
		version = got.ResourceVersion
	}
}

// A policy that was forgotten to be made one of the offered API would look like one that judges.
func TestOfAPolicyThatDeniesNoClaimIsNotSaidThatItJudges(t *testing.T) {
	t.Parallel()
	template := &v1alpha1.APIServiceExportTemplate{}
	template.Spec.API = v1alpha1.ExportedAPI{Group: "example.net", Version: "v1", Resource: "widgets"}
	add := func(name, group string) {
		for _, text := range []string{
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: ` + name + `}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: ["` + group + `"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, validations: [{expression: "true"}]}}`,
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: ` + name + `}, spec: {policyName: ` + name + `, validationActions: [Deny]}}`,
		} {
			raw, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			template.Spec.Policies = append(template.Spec.Policies, runtime.RawExtension{Raw: raw})
		}
	}
	const idle = "not by forgotten: there is no rule about widgets of example.net/v1, or no binding that denies"
	for _, c := range []struct{ name, group, want string }{
		{"forgotten", "anynines.com", "claims are judged by no policy, and " + idle},
		{"mine", "example.net", "claims are judged by mine, and " + idle},
	} {
		add(c.name, c.group)
		// It is no reason to let claims wait.
		if got := policiesCondition(template); got.Status != metav1.ConditionTrue || got.Message != c.want {
			t.Errorf("%s: %q, want %q", got.Status, got.Message, c.want)
		}
	}
}
