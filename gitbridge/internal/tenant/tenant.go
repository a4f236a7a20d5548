// Package tenant says where on the control plane the things of one app cluster
// are, and to which app cluster and claim a thing there belongs. It is pure.
package tenant

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Names of what the bridge makes and writes.
const (
	// RoleBinding gives the tenant's ServiceAccount its rights in a claim
	// namespace.
	RoleBinding = "gitbind-tenant"
	// SecretsRoleBinding gives it the right to read Secrets there.
	SecretsRoleBinding = "gitbind-tenant-secrets"
	// InputsRoleBinding gives it the right to write what is sent with claims there.
	InputsRoleBinding = "gitbind-tenant-inputs"
	// FieldOwner owns the applied fields of claims, and StatusOwner the bridge's
	// fields in the status of gitbind's own kinds.
	FieldOwner  = "gitbind"
	StatusOwner = "gitbind-gitbridge"
)

// Labels and annotations that lead back. A label that is too long is cut and
// ends with a hash; the annotation of the same name then has it in full.
const (
	ClusterLabel    = v1alpha1.LabelCluster
	ClusterUIDLabel = v1alpha1.LabelClusterUID
	// NamespaceLabel and NameLabel are of the app cluster. On a claim namespace
	// NamespaceLabel is an annotation.
	NamespaceLabel = "gitbind.dev/namespace"
	NameLabel      = "gitbind.dev/name"
	// AppliedAnnotation is a hash of all that went into the object, and
	// CommitAnnotation the commit of main that it came from.
	AppliedAnnotation = "gitbind.dev/applied"
	CommitAnnotation  = "gitbind.dev/commit"
	// FieldsAnnotation is a digest of which fields were applied.
	FieldsAnnotation = "gitbind.dev/fields"
)

// Cluster is one app cluster, as the control plane knows it.
type Cluster struct {
	// ID is the ClusterBinding's name, and UID its UID.
	ID  string
	UID string
	// Namespace is the tenant namespace.
	Namespace string
}

// User is as whom the cluster's claims are applied.
func (c Cluster) User() string {
	return "system:serviceaccount:" + c.Namespace + ":" + v1alpha1.TenantServiceAccount
}

// ClusterRole has the rights on all APIs that the cluster was granted.
func (c Cluster) ClusterRole() string { return v1alpha1.TenantRole(c.ID) }

// ClaimNamespace is where the claims of one of the cluster's namespaces lie.
func (c Cluster) ClaimNamespace(namespace string) string {
	return shorten(v1alpha1.TenantNamespace(c.ID) + "-" + namespace)
}

// Labels are those of the object of a claim, Annotations what they could not
// hold.
func (c Cluster) Labels(key contract.Key) map[string]string {
	return map[string]string{
		ClusterLabel:   c.ID,
		NamespaceLabel: key.Namespace,
		NameLabel:      shorten(key.Name),
	}
}

// Annotations say in full what Labels cut.
func (c Cluster) Annotations(key contract.Key) map[string]string {
	if shorten(key.Name) == key.Name {
		return nil
	}
	return map[string]string{NameLabel: key.Name}
}

// Origin tells which claim of which app cluster an object of a bound API is. An
// object that is not where the bridge would have put it belongs to no claim.
func Origin(binding, namespace, name string, labels map[string]string) (clusterID string, key contract.Key, ok bool) {
	id, of := labels[ClusterLabel], labels[NamespaceLabel]
	if id == "" || (Cluster{ID: id}).ClaimNamespace(of) != namespace || labels[NameLabel] != shorten(name) {
		return "", contract.Key{}, false
	}
	return id, contract.Key{Binding: binding, Namespace: of, Name: name}, true
}

// maxLabel is how long the name of a namespace and the value of a label may be.
const maxLabel = 63

// shorten keeps the begin of a name that is too long, and adds a hash of all of
// it.
func shorten(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:12]
	return strings.TrimRight(name[:maxLabel-len(hash)-1], "-.") + "-" + hash
}
