package bound

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Places is how many policies an app cluster can have of one offer. Their names do not
// depend on the policies, as rights on them, and what turns them on, are there before.
const Places = 8

// Names are those of the policies of a bound API, and of the bindings that turn them on.
func Names(binding string) []string {
	out := make([]string, Places)
	for i := range out {
		out[i] = fmt.Sprintf("gitbind-%s-%d", binding, i+1)
	}
	return out
}

// Bindings turn on the policies of the bound API "<plural>.<group>", for that API and
// nothing else, whatever the policies say that they match.
func Bindings(group, plural string) []*admissionv1.ValidatingAdmissionPolicyBinding {
	var out []*admissionv1.ValidatingAdmissionPolicyBinding
	for _, name := range Names(plural + "." + group) {
		out = append(out, &admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        name,
				ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
				MatchResources: &admissionv1.MatchResources{
					ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
						Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{plural}},
					}}},
				},
			},
		})
	}
	return out
}
