package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Condition types of an APIServiceExport, beside Granted.
const (
	// ConditionPublished says that the export is on the status branch. The
	// bridge writes it.
	ConditionPublished = "Published"
	// ConditionPermitted says that the tenant's ServiceAccount may bind the
	// template, where a request in Git asks for it. Without it new claims are held.
	// The bridge writes it.
	ConditionPermitted = "Permitted"
)

// APIServiceExport grants one API to one app cluster. It lives in the tenant
// namespace, its name is "<plural>.<group>", and the bridge publishes it on the
// status branch as bindings/<name>/export.yaml, from where the konnector
// installs the CRD.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=gitbind
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.api.resource + '.' + self.spec.api.group",message="metadata.name must be <resource>.<group> of spec.api, for example postgresqlinstances.anynines.com"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
// +kubebuilder:printcolumn:name="Granted",type=string,JSONPath=`.status.conditions[?(@.type=="Granted")].status`
// +kubebuilder:printcolumn:name="Published",type=string,JSONPath=`.status.conditions[?(@.type=="Published")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIServiceExport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   APIServiceExportSpec   `json:"spec"`
	Status APIServiceExportStatus `json:"status,omitempty"`
}

// NewAPIServiceExport grants the API of a template to the cluster with this id, in its tenant
// namespace. It goes with the ClusterBinding, which has the UID.
func NewAPIServiceExport(namespace, id string, uid types.UID, template string, api ExportedAPI) *APIServiceExport {
	return &APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: api.BindingName(), Labels: map[string]string{LabelCluster: id}, OwnerReferences: ClusterOwners(id, uid, nil),
		},
		Spec: APIServiceExportSpec{Template: template, API: api},
	}
}

// APIServiceExportSpec says what is granted, and by which offer.
type APIServiceExportSpec struct {
	// Template is the name of the APIServiceExportTemplate that this grant
	// follows.
	// +kubebuilder:validation:MinLength=1
	Template string `json:"template"`

	// API is the exported API, copied from the template when it was granted.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="api cannot be changed: bind the other API instead"
	API ExportedAPI `json:"api"`
}

// APIServiceExportStatus holds the snapshot that app clusters install.
type APIServiceExportStatus struct {
	// CRD is the CustomResourceDefinition (apiextensions.k8s.io/v1) for app
	// clusters: of the control plane's own, without Crossplane's machinery and
	// with status.gitbind added.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	CRD *runtime.RawExtension `json:"crd,omitempty"`

	// MetadataKeys are the template's: both sides compare claims by the same ones.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	MetadataKeys []string `json:"metadataKeys,omitempty"`

	// Changes is the template's: how changes of claims in the app cluster come to main.
	// +optional
	Changes Changes `json:"changes,omitempty"`

	// Policies are the template's, while they can be used: the app cluster's API server
	// judges claims by them, too.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Policies []runtime.RawExtension `json:"policies,omitempty"`

	// Inputs are the template's permissionClaims of what goes up from the app cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Inputs []PermissionClaim `json:"inputs,omitempty"`

	// Offer is what the template says for people.
	// +optional
	Offer *Offer `json:"offer,omitempty"`

	// Quota is how much of the template's quota is used, as of some seconds ago: none
	// without a quota, and before it was counted. The bridge writes it; it is not published.
	// +optional
	Quota *QuotaUsage `json:"quota,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

const (
	// MaxNamespaceUsages is how many namespaces a QuotaUsage tells of.
	MaxNamespaceUsages = 500
	// MaxWaitingClaims is how many claims that wait it tells of.
	MaxWaitingClaims = 50
)

// QuotaUsage is how much an app cluster has of an API.
type QuotaUsage struct {
	// QuotaHash tells by which quota this was counted: it is that of the template's, or what
	// this says is old.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	QuotaHash string `json:"quotaHash,omitempty"`

	// Claims is how many there are on the control plane.
	Claims int64 `json:"claims"`

	// Weight is what they weigh together.
	Weight int64 `json:"weight"`

	// Namespaces are those that have some, where a quota bounds namespaces: the fullest
	// ones first, and no others where there are many.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Namespaces []NamespaceUsage `json:"namespaces,omitempty"`

	// Waiting are the claims that waited longest of those for which there is no room.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Waiting []WaitingClaim `json:"waiting,omitempty"`
}

// NamespaceUsage is how much one namespace of an app cluster has of an API.
type NamespaceUsage struct {
	Name   string `json:"name"`
	Claims int64  `json:"claims"`
	Weight int64  `json:"weight"`
}

// WaitingClaim is a claim for which there is no room in its quota.
type WaitingClaim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	// Weight is what it weighs once it is applied.
	Weight int64 `json:"weight"`

	// Has is what its service weighs meanwhile, if it has one.
	// +optional
	Has *int64 `json:"has,omitempty"`
}

// APIServiceExportList is a list of APIServiceExports.
//
// +kubebuilder:object:root=true
type APIServiceExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []APIServiceExport `json:"items"`
}
