package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finalizer keeps a claim in the app cluster until the control plane says that
// its service is gone.
const Finalizer = "gitbind.dev/claim"

// BindingFinalizer keeps an APIServiceBinding until the konnector has taken back
// what it made for it.
const BindingFinalizer = "gitbind.dev/binding"

// Annotations and labels in the app cluster.
const (
	// BaseAnnotation holds the version of a claim that the cluster and Git last
	// agreed on. Only the konnector writes it.
	BaseAnnotation = "gitbind.dev/base"
	// ChangedByAnnotation holds the users who changed a claim, or what an
	// APIServiceBinding asks for, since its last commit, one a line. The attribution
	// policies write it.
	ChangedByAnnotation = "gitbind.dev/changed-by"
	// PauseAnnotation with the value "true" leaves a claim as it is, in the
	// cluster and in Git. A person sets it.
	PauseAnnotation = "gitbind.dev/pause"
	// ResolveAnnotation holds a person's decision on a claim that is held:
	// "<choice>.<token>", both of them out of status.gitbind.hold. The konnector
	// removes it when it has acted.
	ResolveAnnotation = "gitbind.dev/resolve"
	// EmergencyAnnotation holds, on a claim whose changes are to be reviewed, why one of
	// them cannot wait: the next commit of the claim goes to main at once, with this reason
	// in its message. A person with the right "override" on the APIServiceBinding sets it; the
	// konnector removes it when it has committed.
	EmergencyAnnotation = "gitbind.dev/emergency"
	// ProposalAnnotation holds, on a claim whose changes are reviewed, what the konnector has
	// proposed of it, or is about to. Only the konnector writes it.
	ProposalAnnotation = "gitbind.dev/proposal"
	// ChangesLabel on a namespace, with the value PullRequest, has changes of all its claims
	// reviewed.
	ChangesLabel = "gitbind.dev/changes"
	// ConnectionAnnotation names, on an installed CRD, the Connection that it
	// came from; it marks the CRD as the konnector's own.
	ConnectionAnnotation = "gitbind.dev/connection"
	// PolicyAnnotation names, on a ValidatingAdmissionPolicy that the konnector installed,
	// the policy of the offer that it comes from.
	PolicyAnnotation = "gitbind.dev/policy"
	// ApproveSchemaAnnotation on an APIServiceBinding holds the hash of a
	// definition, as the condition Schema names it: it may be installed though it
	// breaks objects that there are. A person sets it.
	ApproveSchemaAnnotation = "gitbind.dev/approve-schema"
	// SequenceAnnotation on a delivered Secret holds the sequence of the version that
	// it is. Only the konnector writes it.
	SequenceAnnotation = "gitbind.dev/sequence"
	// KeysAnnotation on what came up with a claim names the keys of its data that the
	// offer lets through, divided by commas; "" for all. Only the bridge writes it.
	KeysAnnotation = "gitbind.dev/keys"
	// ObjectAnnotation on what came up with claims names the object itself, as
	// "namespace/name": a copy that somebody made of it names another one. Only the bridge
	// writes it.
	ObjectAnnotation = "gitbind.dev/object"
	// InputOfLabel on what came up with claims holds a hash of the claim that it came with
	// first. Only the bridge writes it.
	InputOfLabel = "gitbind.dev/input-of"
	// ManagedByLabel with the value ManagedByKonnector is on each installed CRD and
	// policy, so that the konnector need not watch all others, and on each delivered Secret: a
	// policy lets the konnector touch no other.
	ManagedByLabel     = "app.kubernetes.io/managed-by"
	ManagedByKonnector = "gitbind-konnector"
)

// ConditionSchema of an APIServiceBinding says whether the API is installed as the
// control plane has published it last.
const ConditionSchema = "Schema"

// ConditionPolicies of an APIServiceBinding says whether this cluster's API server judges
// claims by the policies of the offer. There is none where the offer has no policies.
const ConditionPolicies = "Policies"

// APIServiceBinding is one bound API in the app cluster. Its name is
// "<plural>.<group>". The konnector keeps it in step with the file request.yaml
// of the API on main.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=gitbind
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="metadata.name must be <plural>.<group>, for example postgresqlinstances.anynines.com"
// +kubebuilder:printcolumn:name="Connection",type=string,JSONPath=`.spec.connection`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Granted",type=string,JSONPath=`.status.conditions[?(@.type=="Granted")].reason`
// +kubebuilder:printcolumn:name="Schema",type=string,JSONPath=`.status.conditions[?(@.type=="Schema")].reason`
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

	// Template is the offer, as the catalogue names it. Without it, it is the one
	// offer of this API that this cluster may bind.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="template must be the name of an offer, as kubectl gitbind catalog lists it, for example postgresql"
	Template string `json:"template,omitempty"`

	// DeletionPolicy says what becomes of claims when this binding is deleted:
	// Refuse keeps it until there are none; Orphan lets go of them, and their
	// services and files stay; Delete deletes them first, with their services. It
	// may be changed while the binding is being deleted.
	// +optional
	// +kubebuilder:default=Refuse
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// SchemaUpdates says whether newer definitions of the API are installed. One
	// that breaks objects waits for an approval in any case.
	// +optional
	// +kubebuilder:default=Always
	SchemaUpdates SchemaUpdates `json:"schemaUpdates,omitempty"`

	// Writer says where claims of this API may be changed. With Git, a change in
	// the cluster is undone, and kept on a branch conflicts/…; with Cluster, a
	// file that others changed is held until a person decides.
	// +optional
	// +kubebuilder:default=Both
	Writer Writer `json:"writer,omitempty"`

	// Changes says how a change of a claim that is made in this cluster comes to main.
	// With PullRequest it is proposed on a branch changes/…, and nothing happens until
	// somebody has approved it. Where the offer, or a label of the namespace
	// (gitbind.dev/changes), says PullRequest, it is so whatever this says.
	// +optional
	// +kubebuilder:default=Direct
	Changes Changes `json:"changes,omitempty"`

	// OnRejection says what becomes of an object whose change was rejected: Keep leaves it
	// as it is and says so, Revert has it say again what main says. A new object, of which
	// main has nothing, stays in any case.
	// +optional
	// +kubebuilder:default=Keep
	OnRejection OnRejection `json:"onRejection,omitempty"`
}

// Changes says how changes of claims in the app cluster come to main.
// +kubebuilder:validation:Enum=Direct;PullRequest
type Changes string

// The ways of changes.
const (
	ChangesDirect      Changes = "Direct"
	ChangesPullRequest Changes = "PullRequest"
)

// Reviewed reports whether somebody must approve changes. Of a value that is not known, as one
// of a newer version or a misspelt label, that is so.
func (c Changes) Reviewed() bool { return c != "" && c != ChangesDirect }

// OnRejection says what becomes of an object whose change was rejected.
// +kubebuilder:validation:Enum=Keep;Revert
type OnRejection string

// What becomes of it.
const (
	OnRejectionKeep   OnRejection = "Keep"
	OnRejectionRevert OnRejection = "Revert"
)

// Writer says who may change claims.
// +kubebuilder:validation:Enum=Both;Cluster;Git
type Writer string

// The writers.
const (
	WriterBoth    Writer = "Both"
	WriterCluster Writer = "Cluster"
	WriterGit     Writer = "Git"
)

// DeletionPolicy says what becomes of claims when a binding is deleted.
// +kubebuilder:validation:Enum=Refuse;Orphan;Delete
type DeletionPolicy string

// The deletion policies.
const (
	DeletionRefuse DeletionPolicy = "Refuse"
	DeletionOrphan DeletionPolicy = "Orphan"
	DeletionDelete DeletionPolicy = "Delete"
)

// SchemaUpdates says whether newer definitions of an API are installed.
// +kubebuilder:validation:Enum=Always;Never
type SchemaUpdates string

// The ways of schema updates.
const (
	SchemaUpdatesAlways SchemaUpdates = "Always"
	SchemaUpdatesNever  SchemaUpdates = "Never"
)

// APIServiceBindingStatus says whether the API can be used.
type APIServiceBindingStatus struct {
	// Kind is the bound API's kind.
	// +optional
	Kind string `json:"kind,omitempty"`

	// MetadataKeys are labels and annotations that travel with claims beside those
	// that always do, as the API's export says.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	MetadataKeys []string `json:"metadataKeys,omitempty"`

	// Inputs are the Secrets and ConfigMaps of this cluster that go to the control plane
	// with claims which refer to them, as the API's export says. They are read only in
	// namespaces where somebody let the konnector, by the ClusterRole
	// gitbind-konnector-inputs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Inputs []PermissionClaim `json:"inputs,omitempty"`

	// Offer is what the control plane says of the API for people, as the API's export
	// says.
	// +optional
	Offer *Offer `json:"offer,omitempty"`

	// Changes is what the API's export says of changes that are made in app clusters.
	// +optional
	Changes Changes `json:"changes,omitempty"`

	// Request is what this binding and its file request.yaml on main last agreed
	// on.
	// +optional
	Request *RequestStatus `json:"request,omitempty"`

	// Namespaces are those that hold objects of this API, the first thousand by
	// name. A policy that a person may install refuses to delete them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	Namespaces []string `json:"namespaces,omitempty"`

	// HeldFiles counts the claim files on main for which no object could be
	// created in this cluster, for example because their namespace is missing, and
	// the claims whose object was left behind in a namespace that is gone.
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

// RequestStatus is a version of request.yaml.
type RequestStatus struct {
	// Blob is Git's name of the file.
	Blob string `json:"blob"`
	// Commit is a commit of main that has it.
	Commit string `json:"commit"`
	// ConnectionUID is that of the Connection under which it was agreed on.
	ConnectionUID types.UID `json:"connectionUID"`
	// Template is what the file said.
	// +optional
	Template string `json:"template,omitempty"`
	// DeletionPolicy is what the file said.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Removed says that the file is gone from main since, and that the binding
	// goes for it.
	// +optional
	Removed bool `json:"removed,omitempty"`
	// Pushing is Git's name of the file that the konnector was about to push when this was
	// written. A file that has it is the konnector's own. Before anything was agreed on,
	// blob and commit are empty.
	// +optional
	Pushing string `json:"pushing,omitempty"`
}

// HeldFile is a claim file on main that has no object in this cluster, or one on which
// nothing can be said.
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
