// Package v1beta3 has the kind ServiceBinding as anynines' a8s operators serve
// it. It holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=servicebindings.anynines.com
package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the kind.
var GroupVersion = schema.GroupVersion{Group: "servicebindings.anynines.com", Version: "v1beta3"}

// ServiceBinding is a user of an instance, with a Secret that says how to connect.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=servicebindings,shortName=sb
// +kubebuilder:printcolumn:name="Implemented",type=boolean,JSONPath=`.status.implemented`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.error`
type ServiceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a binding cannot be changed: make another one"
	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec names the instance.
type Spec struct {
	Instance Instance `json:"instance"`
}

// Instance is a reference to one.
type Instance struct {
	APIVersion string `json:"apiVersion,omitempty"`
	// +kubebuilder:validation:Enum=Postgresql
	Kind string `json:"kind"`

	NamespacedName `json:",inline"`
}

// NamespacedName is the name of something in a namespace.
type NamespacedName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Status is what there is.
type Status struct {
	// Before it is true the Secret must not be used.
	Implemented bool            `json:"implemented"`
	Secret      *NamespacedName `json:"secret,omitempty"`
	Error       string          `json:"error,omitempty"`
}

// ServiceBindingList is a list of them.
//
// +kubebuilder:object:root=true
type ServiceBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ServiceBinding `json:"items"`
}

// AddToScheme adds the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ServiceBinding{}, &ServiceBindingList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
