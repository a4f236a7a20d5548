package v1alpha1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnersBesideBindings are those of an object's owners that are no
// APIServiceBindings.
func OwnersBesideBindings(owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool {
		return o.Kind == "APIServiceBinding" && strings.HasPrefix(o.APIVersion, GroupVersion.Group+"/")
	})
}
