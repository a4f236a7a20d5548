package v1alpha1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClusterOwners are the owners of an object that goes with a ClusterBinding, which is its
// controller, too, if controller is true and not nil.
func ClusterOwners(id string, uid types.UID, controller *bool) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: GroupVersion.String(), Kind: "ClusterBinding", Name: id, UID: uid, Controller: controller}}
}

// OwnersBesideBindings are those of an object's owners that are no
// APIServiceBindings.
func OwnersBesideBindings(owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool {
		return o.Kind == "APIServiceBinding" && strings.HasPrefix(o.APIVersion, GroupVersion.Group+"/")
	})
}
