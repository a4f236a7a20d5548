// Package attribution makes the API server of an app cluster name the users who
// changed a claim: the MutatingAdmissionPolicy beside this file, and the binding
// that turns it on for one bound API. That for APIServiceBindings, bindings.yaml, is
// on wherever it is installed.
//
// The policies are installed by a person. They need Kubernetes 1.36 and see no
// deletes: what they do not see is committed as author unknown.
package attribution

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyName is the name of the MutatingAdmissionPolicy.
const PolicyName = "gitbind-attribution"

// ForBinding turns the policy on for the bound API "<plural>.<group>", in all its
// versions.
func ForBinding(group, plural string) *admissionv1.MutatingAdmissionPolicyBinding {
	return &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: "gitbind-" + plural + "." + group},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: PolicyName,
			MatchResources: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
						Rule: admissionv1.Rule{
							APIGroups:   []string{group},
							APIVersions: []string{"*"},
							Resources:   []string{plural},
						},
					},
				}},
			},
		},
	}
}
