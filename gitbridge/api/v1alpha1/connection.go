package v1alpha1

import (
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionEvents of a Connection says whether the backend tells at once what
// happens in the repository. Without it the konnector looks once a minute.
const ConditionEvents = "Events"

// ConditionRemovals of a Connection says whether removals are held because they
// are too many at once.
const ConditionRemovals = "Removals"

// ExpiresKey is where a Connection's Secret says until when its credential is
// good, as RFC 3339.
const ExpiresKey = "expires"

// GitUsernameKey and GitPasswordKey are where an agent's Secret has what opens the
// repository, if that is not what opens the backend: on a Git host of its own.
const (
	GitUsernameKey = "git-username"
	GitPasswordKey = "git-password"
)

// RepositoryURLKey is where an agent's Secret says which repository its credential opens; absent in
// one that was made by hand, or by an older plugin or backend.
const RepositoryURLKey = "repository-url"

// SSHPrivateKeyKey and KnownHostsKey are where an agent's Secret has what opens the
// repository over SSH: a private key in PEM, by its name in Secrets of type
// kubernetes.io/ssh-auth, and the host's public keys, as OpenSSH and Flux name them.
const (
	SSHPrivateKeyKey = "ssh-privatekey"
	KnownHostsKey    = "known_hosts"
)

// GitExpiresKey and GitRenewAfterKey are where it says, as RFC 3339, until when that counts
// and from when on another one is to be had; absent for one that the host does not end by
// itself.
const (
	GitExpiresKey    = "git-expires"
	GitRenewAfterKey = "git-renew-after"
)

// PreviousPasswordKey, and those of what opens the repository, are where it has the credential
// before a renewal, until the backend has taken the new one.
const (
	PreviousPasswordKey      = "previous-password"
	PreviousGitUsernameKey   = "previous-git-username"
	PreviousGitPasswordKey   = "previous-git-password"
	PreviousGitExpiresKey    = "previous-git-expires"
	PreviousGitRenewAfterKey = "previous-git-renew-after"
	PreviousRepositoryURLKey = "previous-repository-url"
)

// OptionalCredentialKeys are those keys of an agent's Secret that a credential does not always
// have. An empty value is none.
func OptionalCredentialKeys() []string {
	return []string{
		GitUsernameKey, GitPasswordKey, GitExpiresKey, GitRenewAfterKey,
		PreviousPasswordKey, PreviousGitUsernameKey, PreviousGitPasswordKey, PreviousGitExpiresKey, PreviousGitRenewAfterKey,
		RepositoryURLKey, PreviousRepositoryURLKey,
	}
}

// GitCredential is what opens the repository, of the data of an agent's Secret.
func GitCredential(data map[string][]byte) (username, password string) {
	if len(data[GitUsernameKey]) > 0 && len(data[GitPasswordKey]) > 0 {
		return string(data[GitUsernameKey]), string(data[GitPasswordKey])
	}
	return string(data["username"]), string(data["password"])
}

// GitCredentialFor is what opens a repository, of the data of an agent's Secret; empty if that is
// for a repository on another host.
func GitCredentialFor(repositoryURL string, data map[string][]byte) (username, password string) {
	if at := string(data[RepositoryURLKey]); at != "" && hostOf(at) != hostOf(repositoryURL) {
		return "", ""
	}
	return GitCredential(data)
}

// SSHCredential is what opens the repository over SSH, of the data of an agent's Secret.
func SSHCredential(data map[string][]byte) (privateKey, knownHosts []byte) {
	return data[SSHPrivateKeyKey], data[KnownHostsKey]
}

// IsSSH reports whether a repository is reached over SSH.
func IsSSH(repositoryURL string) bool { return strings.HasPrefix(repositoryURL, "ssh://") }

// ConditionCredential of a Connection says until when its credential counts.
const ConditionCredential = "Credential"

// ConditionEncryption of a Connection says whether Secrets can travel to this cluster:
// whether its key is registered with the control plane.
const ConditionEncryption = "Encryption"

// EncryptionSecret has, in the namespace of the konnector, the private keys to which the
// Secrets of a Connection are encrypted, and with which the konnector signs.
func EncryptionSecret(connection string) string { return "encryption-" + connection }

// CredentialRole is the Role, in the namespace of a Connection's Secret, by which
// the konnector may renew what is in that Secret and in EncryptionSecret, and in no other.
func CredentialRole(connection string) string { return "gitbind:credential:" + connection }

// ConditionRequests of a Connection says that main asks for APIs that are bound to
// another Connection. It is there only then.
const ConditionRequests = "Requests"

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

// IsOnBackend reports whether the repository is on the Git host within the backend. That one
// lets people in with their sign-in to the backend, and has the backend's certificate.
func (c *Connection) IsOnBackend() bool {
	backend := strings.TrimRight(c.Spec.BackendURL, "/")
	return backend != "" && strings.HasPrefix(c.Spec.RepositoryURL, backend+"/")
}

// GitCredential is what opens the repository, of the data of the Connection's Secret; empty if that
// is for a repository on another host. The backend may have several names, and knows all that it
// gives.
func (c *Connection) GitCredential(data map[string][]byte) (username, password string) {
	if c.IsOnBackend() {
		return GitCredential(data)
	}
	return GitCredentialFor(c.Spec.RepositoryURL, data)
}

// hostOf is the host name of a URL, "" for what is none.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// ConnectionSpec says where the control plane is.
type ConnectionSpec struct {
	// BackendURL is the backend's base URL, for events. Without it the
	// konnector polls the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^https?://[^/@?#]+(/[^?#]*)?$')",message="backendURL must be an http or https URL, without credentials, query or fragment"
	BackendURL string `json:"backendURL,omitempty"`

	// RepositoryURL is the clone URL of this cluster's repository: http, https, or
	// ssh://[user@]host[:port]/path.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^(https?://[^/@?#]+(/[^?#]*)?|ssh://([^/@:?#]+@)?[^/@?#]+/[^?#]+)$')",message="repositoryURL must be an http, https or ssh URL, without credentials, query or fragment, and git@host:path is written as ssh://git@host/path"
	RepositoryURL string `json:"repositoryURL"`

	// ClusterID is the name of the ClusterBinding on the control plane.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterID cannot be changed: make a new Connection"
	ClusterID string `json:"clusterID"`

	// SecretRef names the Secret with keys username and password, and for a repository
	// over SSH, ssh-privatekey and known_hosts.
	SecretRef SecretReference `json:"secretRef"`

	// CABundle is PEM certificates, trusted for the repository and the backend
	// beside the system's.
	// +optional
	// +kubebuilder:validation:MaxLength=87384
	// +kubebuilder:validation:XValidation:rule="string(self).contains('-----BEGIN CERTIFICATE-----') && !string(self).contains('PRIVATE KEY')",message="caBundle must be certificates in PEM, base64-encoded, and no private key"
	CABundle []byte `json:"caBundle,omitempty"`

	// Namespaces limits which namespaces' claims belong to this connection. Each
	// is a name, in which "*" stands for any characters. Without any, all do. A
	// claim elsewhere is left alone, and says so.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?$')",message="a namespace is lower-case letters, digits and dashes, with * for any characters, for example team-*"
	Namespaces []string `json:"namespaces,omitempty"`

	// SignCommits has the konnector sign its commits on main with an SSH key of the cluster's own.
	// +optional
	SignCommits bool `json:"signCommits,omitempty"`

	// Removals limits how many claims may go without a person's approval.
	// +optional
	Removals *RemovalLimits `json:"removals,omitempty"`
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

	// BegunAt is the commit from which main counts since a person approved it;
	// empty where it was followed from the beginning.
	// +optional
	BegunAt string `json:"begunAt,omitempty"`

	// Observed is how far the branch status was seen to come. Nothing is let go of
	// on the word of a status that is older or another one.
	// +optional
	Observed *ObservedStatus `json:"observed,omitempty"`

	// Removals are the claims whose removal passed lately without an approval.
	// +optional
	// +kubebuilder:validation:MaxItems=201
	Removals []Removal `json:"removals,omitempty"`

	// Moves are claim files that were seen to move: their claims are not deleted
	// for it. Of an API with more than are kept, the folder of its claims is both
	// from and to, and stands for all of its files that are missing.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	Moves []Move `json:"moves,omitempty"`

	// Approved are the approvals that were acted on last.
	// +optional
	Approved *Approvals `json:"approved,omitempty"`

	// Encryption are the bridge's public keys, as the backend told them: what they
	// did not sign is not taken for a Secret.
	// +optional
	Encryption *EncryptionKeys `json:"encryption,omitempty"`

	// SigningKey is the public half of the key that the konnector's commits are signed with,
	// as OpenSSH writes it; empty if they are not.
	// +optional
	SigningKey string `json:"signingKey,omitempty"`

	// CredentialExpires is until when the credential in the Secret counts, as the backend
	// said when the konnector asked with it; absent while it did not.
	// +optional
	CredentialExpires *metav1.Time `json:"credentialExpires,omitempty"`

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

// ObservedStatus names a state of the branch status.
type ObservedStatus struct {
	// Epoch is the life of the branch.
	Epoch string `json:"epoch"`
	// Sequence grows with each commit of an epoch.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
}

// Move is a claim file that went from one path to another.
type Move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Approvals are annotations as they were when they were acted on.
type Approvals struct {
	// Main is the value of gitbind.dev/approve-main.
	// +optional
	Main string `json:"main,omitempty"`
	// Removals is the value of gitbind.dev/approve-removals.
	// +optional
	Removals string `json:"removals,omitempty"`
	// RemovalsTime is when that was seen: deletes that began later are not
	// covered.
	// +optional
	RemovalsTime *metav1.Time `json:"removalsTime,omitempty"`
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
