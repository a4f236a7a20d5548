package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionOffered says that the template's API is served and can be bound.
const ConditionOffered = "Offered"

// APIServiceExportTemplate is an offer by a platform operator: one API that app
// clusters may bind. Who may bind it is RBAC: verb "bind" on
// apiserviceexporttemplates/<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=gitbind
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.api.resource`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.api.group`
// +kubebuilder:printcolumn:name="Offered",type=string,JSONPath=`.status.conditions[?(@.type=="Offered")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIServiceExportTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   APIServiceExportTemplateSpec   `json:"spec"`
	Status APIServiceExportTemplateStatus `json:"status,omitempty"`
}

// APIServiceExportTemplateSpec describes the offer.
type APIServiceExportTemplateSpec struct {
	API ExportedAPI `json:"api"`

	// Description tells developers what they order.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
}

// ExportedAPI names one version of one namespaced resource of the control
// plane.
type ExportedAPI struct {
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('.k8s.io') && self != 'k8s.io' && self != 'gitbind.dev'",message="group is reserved: offer an API of your own group"
	Group string `json:"group"`
	// Version is the served version that travels.
	// +kubebuilder:validation:Pattern=`^v[0-9]+((alpha|beta)[0-9]+)?$`
	Version string `json:"version"`
	// Resource is the plural name, for example "postgresqlinstances".
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
}

// BindingName is the name of the API's binding and of its folder in Git:
// "<plural>.<group>".
func (a ExportedAPI) BindingName() string { return a.Resource + "." + a.Group }

// APIServiceExportTemplateStatus says whether the offer can be taken.
type APIServiceExportTemplateStatus struct {
	// Kind is the API's kind, as the control plane serves it.
	// +optional
	Kind string `json:"kind,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// APIServiceExportTemplateList is a list of APIServiceExportTemplates.
//
// +kubebuilder:object:root=true
type APIServiceExportTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []APIServiceExportTemplate `json:"items"`
}
