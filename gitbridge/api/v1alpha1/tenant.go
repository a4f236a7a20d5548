package v1alpha1

import (
	"regexp"
	"strings"
)

// What the backend makes for each cluster, and the bridge finds there. All
// follows from the cluster's id, the name of its ClusterBinding.

// Labels and annotations on the control plane.
const (
	// LabelCluster holds the cluster's id, on each namespace of a cluster.
	LabelCluster = "gitbind.dev/cluster"
	// LabelClusterUID holds the UID of the ClusterBinding: a namespace of an
	// earlier one with the same name is not used.
	LabelClusterUID = "gitbind.dev/cluster-uid"
	// LabelOffered, with value "true", marks the ClusterRoles by which
	// operators offer APIs.
	LabelOffered = "gitbind.dev/offered"
	// LabelShare, on a RoleBinding and its Role in the tenant namespace, is the id by
	// which an owner shares the cluster's repository with somebody, and ShareAnnotation
	// says with whom and for what, in JSON.
	LabelShare      = "gitbind.dev/share"
	ShareAnnotation = "gitbind.dev/share"
	// RotateAnnotation on BridgeSecret, with any value, asks for another
	// credential. It is taken away when that is there.
	RotateAnnotation = "gitbind.dev/rotate"
	// AdoptAnnotation hands an object that somebody else made over: on the control
	// plane to the claim of the same name, or to what travels with one, its value is the
	// cluster's id; in the app
	// cluster, on a Secret, to the claim that its value names.
	AdoptAnnotation = "gitbind.dev/adopt"
)

// Objects in the tenant namespace.
const (
	// TenantServiceAccount is whom the bridge acts as, and what a tenant's
	// rights are bound to.
	TenantServiceAccount = "gitbind-tenant"
	// BridgeSecret has the bridge's credential for the repository: keys
	// username, password and expires (RFC 3339), RepositoryURLKey, and for some
	// minutes after a renewal previous-password and previous-expires. For a
	// repository over SSH: SSHPrivateKeyKey and KnownHostsKey.
	BridgeSecret = "gitbind-bridge"
	// KonnectorSecret has what is kept of the konnector's credential: keys
	// username, sha256 and expires (RFC 3339), and next-sha256 and next-expires
	// from a renewal until the first use of the next one. prepared-sha256 and
	// prepared-expires are of one that opens nothing until it replaces them.
	KonnectorSecret = "gitbind-konnector"
	// BridgeBinding is the RoleBinding by which the bridge may act as
	// TenantServiceAccount of this one namespace.
	BridgeBinding = "gitbind-bridge"
)

// Where backend and bridge run, and the rights that operators give them.
const (
	SystemNamespace      = "gitbind-system"
	BridgeServiceAccount = "gitbind-gitbridge"
	// BridgeEncryptionSecret, in SystemNamespace, has the key with which the bridge signs,
	// and those to which app clusters encrypt what they send.
	BridgeEncryptionSecret = "gitbind-bridge-encryption"
	// ClaimSecrets is the ClusterRole with the right to read Secrets. The bridge binds it
	// to tenants, in claim namespaces whose claims have Secrets that travel.
	ClaimSecrets = "gitbind:claim-secrets"
	// ClaimInputs is the ClusterRole with the right to write what app clusters send with
	// claims. The bridge binds it to tenants, in claim namespaces whose claims have such.
	ClaimInputs = "gitbind:claim-inputs"
	// KonnectorInputs is the ClusterRole, in app clusters, with the right to read what
	// claims refer to. People bind it to the konnector, in namespaces of their own.
	KonnectorInputs = "gitbind-konnector-inputs"
	// ManagedByBridge is the value of ManagedByLabel on what the bridge wrote for an app
	// cluster beside its claims.
	ManagedByBridge = "gitbind-gitbridge"
	// OfferedAPIs is the ClusterRole that collects, by LabelOffered, the rights
	// that backend and bridge may hand on to tenants.
	OfferedAPIs = "gitbind-offered-apis"
	// BridgeImpersonation is the ClusterRole with the right to act as a tenant. The
	// backend binds it in each tenant namespace, to the bridge and to nobody else.
	BridgeImpersonation = "gitbind-bridge-impersonate"
	// ClusterOwnerRole is the ClusterRole with the right to connect clusters.
	ClusterOwnerRole = "gitbind:cluster-owner"
	// PeopleGroup is the group in RBAC of everybody whom the backend has signed in,
	// and of nobody else: the API server's own callers, ServiceAccounts among them,
	// are never in it.
	PeopleGroup = "gitbind:signed-in"
)

// IsSystemNamespace reports whether a namespace of an app cluster has the konnector's own
// credentials, or Kubernetes'. Nothing travels from there or to there.
func IsSystemNamespace(name string) bool {
	return name == SystemNamespace || strings.HasPrefix(name, "kube-")
}

var clusterID = regexp.MustCompile(`^[a-z][a-z0-9]{0,59}$`)

// ValidClusterID tells whether a text can be a cluster's id. An id becomes part
// of names, paths and URLs: it has no dot, no slash, no dash and no upper case,
// and is short enough for TenantNamespace to be a name.
func ValidClusterID(id string) bool { return clusterID.MatchString(id) }

// TenantNamespace is the namespace of a cluster's ServiceAccount, credentials
// and exports.
func TenantNamespace(id string) string { return "gb-" + id }

// TenantRole is the ClusterRole with all rights that were granted to a cluster.
// It has no effect but through RoleBindings in the cluster's claim namespaces.
func TenantRole(id string) string { return "gitbind:tenant:" + id }

// TenantBindRole is the ClusterRole, and its binding, by which a cluster may bind
// in Git what people bound for it.
func TenantBindRole(id string) string { return TenantRole(id) + ":bind" }
