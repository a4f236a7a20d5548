package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionReady is the one condition type that every kind here has.
const ConditionReady = "Ready"

// ConditionEvents of a Connection says whether the backend tells at once what
// happens in the repository. Without it the konnector looks once a minute.
const ConditionEvents = "Events"

// Connection is one control plane, as an app cluster sees it: one repository
// and the credential for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=gitbind
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.spec.repositoryURL`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Refused",type=integer,JSONPath=`.status.refusedFiles`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Connection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ConnectionSpec   `json:"spec"`
	Status ConnectionStatus `json:"status,omitempty"`
}

// ConnectionSpec says where the control plane is.
type ConnectionSpec struct {
	// BackendURL is the backend's base URL, for events. Without it the
	// konnector polls the repository.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="backendURL must be an http or https URL"
	BackendURL string `json:"backendURL,omitempty"`

	// RepositoryURL is the clone URL of this cluster's repository.
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="repositoryURL must be an http or https URL"
	RepositoryURL string `json:"repositoryURL"`

	// ClusterID is the name of the ClusterBinding on the control plane.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterID cannot be changed: make a new Connection"
	ClusterID string `json:"clusterID"`

	// SecretRef names the Secret with keys username and password.
	SecretRef SecretReference `json:"secretRef"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// ConnectionStatus is what the konnector knows of the repository.
type ConnectionStatus struct {
	// AcceptedCommit is the last commit of main that the konnector accepted.
	// Removals are acted on only in a main that descends from it.
	// +optional
	AcceptedCommit string `json:"acceptedCommit,omitempty"`

	// RefusedFiles counts the files on main that the bridge refused.
	// +optional
	RefusedFiles int `json:"refusedFiles,omitempty"`
	// Refused lists the first of them.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	Refused []RefusedFile `json:"refused,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RefusedFile is a file on main that the bridge does not act on.
type RefusedFile struct {
	// Path is relative to the repository's root.
	Path string `json:"path"`
	// Line in the file, from 1; 0 when the whole file is meant.
	// +optional
	Line int `json:"line,omitempty"`
	// Result is Invalid, Denied, Held, Failed or Lost.
	Result string `json:"result"`
	// Message says what is wrong, for the file's author.
	Message string `json:"message"`
}

// ConnectionList is a list of Connections.
//
// +kubebuilder:object:root=true
type ConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Connection `json:"items"`
}
