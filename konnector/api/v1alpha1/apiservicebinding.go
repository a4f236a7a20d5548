package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Finalizer keeps a claim in the app cluster until the control plane says that
// its service is gone.
const Finalizer = "gitbind.dev/claim"

// Annotations and labels in the app cluster.
const (
	// BaseAnnotation holds the version of a claim that the cluster and Git last
	// agreed on. Only the konnector writes it.
	BaseAnnotation = "gitbind.dev/base"
	// ChangedByAnnotation holds the users who changed a claim since its last
	// commit, one a line. The attribution policy writes it.
	ChangedByAnnotation = "gitbind.dev/changed-by"
	// PauseAnnotation with the value "true" leaves a claim as it is, in the
	// cluster and in Git. A person sets it.
	PauseAnnotation = "gitbind.dev/pause"
	// ResolveAnnotation holds a person's decision on a claim that is held:
	// "<choice>.<token>", both of them out of status.gitbind.hold. The konnector
	// removes it when it has acted.
	ResolveAnnotation = "gitbind.dev/resolve"
	// ConnectionAnnotation names, on an installed CRD, the Connection that it
	// came from; it marks the CRD as the konnector's own.
	ConnectionAnnotation = "gitbind.dev/connection"
	// ManagedByLabel with the value ManagedByKonnector is on each installed CRD,
	// so that the konnector need not watch all others.
	ManagedByLabel     = "app.kubernetes.io/managed-by"
	ManagedByKonnector = "gitbind-konnector"
)

// APIServiceBinding is one bound API in the app cluster. Its name is
// "<plural>.<group>".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=gitbind
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="metadata.name must be <plural>.<group>, for example postgresqlinstances.anynines.com"
// +kubebuilder:printcolumn:name="Connection",type=string,JSONPath=`.spec.connection`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.heldFiles`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIServiceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   APIServiceBindingSpec   `json:"spec"`
	Status APIServiceBindingStatus `json:"status,omitempty"`
}

// APIServiceBindingSpec says which control plane offers the API.
type APIServiceBindingSpec struct {
	// Connection is the name of the Connection.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="connection cannot be changed: unbind, then bind again"
	Connection string `json:"connection"`

	// Writer says where claims of this API may be changed. With Git, a change in
	// the cluster is undone, and kept on a branch conflicts/…; with Cluster, a
	// file that others changed is held until a person decides.
	// +optional
	// +kubebuilder:default=Both
	Writer Writer `json:"writer,omitempty"`
}

// Writer says who may change claims.
// +kubebuilder:validation:Enum=Both;Cluster;Git
type Writer string

// The writers.
const (
	WriterBoth    Writer = "Both"
	WriterCluster Writer = "Cluster"
	WriterGit     Writer = "Git"
)

// APIServiceBindingStatus says whether the API can be used.
type APIServiceBindingStatus struct {
	// Kind is the bound API's kind.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Namespaces are those that hold objects of this API, the first thousand by
	// name. A policy that a person may install refuses to delete them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	Namespaces []string `json:"namespaces,omitempty"`

	// HeldFiles counts the claim files on main for which no object could be
	// created in this cluster, for example because their namespace is missing.
	// +optional
	HeldFiles int `json:"heldFiles,omitempty"`
	// Held lists the first of them.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	Held []HeldFile `json:"held,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HeldFile is a claim file on main that has no object in this cluster.
type HeldFile struct {
	// Path is relative to the repository's root.
	Path string `json:"path"`
	// Reason is one word for programs.
	Reason string `json:"reason"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
}

// APIServiceBindingList is a list of APIServiceBindings.
//
// +kubebuilder:object:root=true
type APIServiceBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []APIServiceBinding `json:"items"`
}
