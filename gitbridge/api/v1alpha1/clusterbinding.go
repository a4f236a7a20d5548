package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a ClusterBinding, beside Ready.
const (
	// ConditionSynced says that the bridge follows the repository and has
	// answered what is in it. The bridge writes it.
	ConditionSynced = "Synced"
	// ConditionConnected says that the app cluster's konnector was here lately. The
	// backend writes it.
	ConditionConnected = "Connected"
	// ConditionCopied says that two live copies of the app cluster use its credential,
	// for example since a recovery drill from an etcd snapshot, and that both are held.
	// It is there only then. The backend writes it.
	ConditionCopied = "Copied"
	// ConditionForeignObjects says that claims are held because objects that are
	// not theirs are in their place. The bridge writes it.
	ConditionForeignObjects = "ForeignObjects"
	// ConditionUnattended says that no bridge of the cluster's shard runs, so that nothing
	// happens in its repository. It is there only then. The backend writes it.
	ConditionUnattended = "Unattended"
)

// IsCopied reports whether two live copies of the app cluster are known.
func (b *ClusterBinding) IsCopied() bool {
	return meta.IsStatusConditionTrue(b.Status.Conditions, ConditionCopied)
}

// RecreateEmptyAnnotation on a ClusterBinding names paths of main, or folders of
// them, by commas or lines: what is missing of them on the control plane, when the
// bridge reads it, is made again. A person sets it. The bridge has it name the paths
// that are still to be made, and removes it after the last one.
const RecreateEmptyAnnotation = "gitbind.dev/recreate-empty"

// RecreateEmptyPaths are the paths that a RecreateEmptyAnnotation names, folders without
// the last slash.
func RecreateEmptyPaths(annotation string) []string {
	paths := strings.FieldsFunc(annotation, func(r rune) bool { return r == ',' || r == '\n' || r == ' ' })
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(p, "/")
	}
	return paths
}

// ClusterBinding is one app cluster, as the control plane knows it: who owns
// it, which repository and which tenant namespace are its own. Its name is the
// opaque cluster id; a name that a client gave proves nothing.
//
// Deleting it removes the tenant namespace with its credentials and rights. The
// repository stays on the Git host until an operator removes it there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=gitbind,shortName=cb
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z][a-z0-9]{0,59}$')",message="metadata.name is the cluster's id: lower-case letters and digits, beginning with a letter, at most 60"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.displayName`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner.username`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Shard",type=string,JSONPath=`.status.bridge.shard`
// +kubebuilder:printcolumn:name="Foreign",type=integer,JSONPath=`.status.foreign`,priority=1
// +kubebuilder:printcolumn:name="Seen",type=date,JSONPath=`.status.lastSeen`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterBindingSpec   `json:"spec"`
	Status ClusterBindingStatus `json:"status,omitempty"`
}

// ClusterBindingSpec says whose cluster this is.
// +kubebuilder:validation:XValidation:rule="self.owner == oldSelf.owner || has(oldSelf.transferTo) && self.owner.username == oldSelf.transferTo",message="owner cannot be changed: a ClusterBinding belongs to the identity that created it, or that took it over by spec.transferTo"
type ClusterBindingSpec struct {
	// DisplayName is the name that the owner gave the cluster, for people.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	DisplayName string `json:"displayName"`

	// ClusterUID is the UID of the app cluster's namespace kube-system. With
	// owner it tells a cluster that connects again from a new one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`

	// Owner is the identity that connected the cluster, or that took it over since.
	Owner Owner `json:"owner"`

	// TransferTo is the username of whom the owner offers the cluster, as RBAC has it.
	// A person who proves to be that user may take it over.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	TransferTo string `json:"transferTo,omitempty"`

	// Removals limits how many services may go without a person's approval.
	// +optional
	Removals *RemovalLimits `json:"removals,omitempty"`

	// Encryption are the app cluster's public keys, as its konnector registered
	// them.
	// +optional
	Encryption *EncryptionKeys `json:"encryption,omitempty"`

	// AwaitsKeys says that the owner connected the cluster, for the first time or
	// again: the konnector may register keys, whichever are registered. Otherwise a
	// registration must be signed with a key that is.
	// +optional
	AwaitsKeys bool `json:"awaitsKeys,omitempty"`

	// Signatures, if set, has the bridge apply only what was signed: by the cluster's
	// konnector, which then has to sign its commits (spec.signCommits of the Connection),
	// or by a key of allowedSigners, such as the Git host's own for merges. What is not is
	// held.
	// +optional
	Signatures *Signatures `json:"signatures,omitempty"`

	// Suspended stops the bridge for this cluster: nothing is applied, deleted or
	// answered. What was pushed meanwhile is acted on afterwards.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
}

// Signatures says whose signatures of commits count beside the konnector's.
type Signatures struct {
	// AllowedSigners are SSH keys in the form of OpenSSH's allowed_signers file, a key in
	// each line: principals, options, type and key. A key that is revoked gets the option
	// valid-before, in UTC, or goes.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	AllowedSigners string `json:"allowedSigners,omitempty"`
}

// EncryptionKeys are one side's public keys for what travels encrypted.
type EncryptionKeys struct {
	// Recipients are whom Secrets are encrypted to: age's public keys (X25519),
	// "age1...".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=62
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^age1[02-9ac-hj-np-z]{58}$')",message="a recipient is age's public key of an X25519 identity, age1..."
	Recipients []string `json:"recipients,omitempty"`

	// SigningKeys are with what this side's files and registrations are signed:
	// Ed25519 public keys in base64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=44
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9+/]{43}=$')",message="a signing key is an Ed25519 public key, 32 bytes in base64"
	SigningKeys []string `json:"signingKeys,omitempty"`
}

// Keys are the app cluster's public keys: to its recipients Secrets are encrypted, and with
// its signing keys it signs. There are none before it has registered any.
func (b *ClusterBinding) Keys() EncryptionKeys {
	if b.Spec.Encryption == nil {
		return EncryptionKeys{}
	}
	return *b.Spec.Encryption
}

// Owner is an OIDC identity. Issuer and subject identify it; username is how
// the control plane's RBAC knows it.
type Owner struct {
	// +kubebuilder:validation:MinLength=1
	Issuer string `json:"issuer"`
	// +kubebuilder:validation:MinLength=1
	Subject string `json:"subject"`
	// +kubebuilder:validation:MinLength=1
	Username string `json:"username"`
}

// ClusterBindingStatus is what exists for the cluster, and how far the bridge
// has come.
type ClusterBindingStatus struct {
	// TenantNamespace is the namespace on the control plane that holds this
	// cluster's ServiceAccount, credentials and exports.
	// +optional
	TenantNamespace string `json:"tenantNamespace,omitempty"`

	// Repository is the cluster's Git repository.
	// +optional
	Repository *Repository `json:"repository,omitempty"`

	// LastSeen is when the app cluster's konnector was here, as of when that was
	// written down: when Connected changes, and each half an hour.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`

	// Foreign is how many claims are held because an object that is not theirs is
	// in their place. ForeignObjects names some.
	// +optional
	Foreign int32 `json:"foreign,omitempty"`

	// Bridge is what the bridge must remember across restarts.
	// +optional
	Bridge *BridgeStatus `json:"bridge,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Repository names a Git repository.
type Repository struct {
	// URL is the clone URL: http, https, or ssh://[user@]host[:port]/path.
	URL string `json:"url"`
}

// BridgeStatus is written by the bridge before it acts on a later commit.
type BridgeStatus struct {
	// Shard is the one whose bridge follows the cluster. Another one begins when this one
	// has written its name here, which it does once it has stopped, or when no bridge of
	// this one holds its Lease any more.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Shard string `json:"shard,omitempty"`
	// AcceptedCommit is the last commit of main that the bridge accepted.
	// Removals are acted on only in a main that descends from it.
	// +optional
	AcceptedCommit string `json:"acceptedCommit,omitempty"`
	// BegunAt is the commit of main from which it is followed: at first contact, or
	// when a person approved a main that is another one. An object that was made from a
	// later commit was made from this history.
	// +optional
	BegunAt string `json:"begunAt,omitempty"`
	// Epoch identifies this life of the status branch.
	// +optional
	Epoch string `json:"epoch,omitempty"`
	// Sequence is one that the status branch has reached.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// Encryption are the bridge's public keys, for the app cluster.
	// +optional
	Encryption *EncryptionKeys `json:"encryption,omitempty"`
	// Removals are the claims whose removal passed lately without an approval.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=201
	Removals []Removal `json:"removals,omitempty"`
}

// ClusterBindingList is a list of ClusterBindings.
//
// +kubebuilder:object:root=true
type ClusterBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterBinding `json:"items"`
}
