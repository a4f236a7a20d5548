// Package restapi holds what the backend says over HTTP, as JSON. Requests carry an
// OIDC ID token as bearer token, except GET /v1/info, and those for a cluster's
// konnector with its own credential: GET and POST /v1/clusters/{id}/credential tell about
// that or renew it, PUT /v1/clusters/{id}/encryption registers the keys of the app
// cluster, and PUT /v1/clusters/{id}/heartbeat says that a konnector is live.
package restapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Info answers GET /v1/info: what a client needs in order to sign in.
type Info struct {
	Version  string   `json:"version"`
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"clientID"`
	Scopes   []string `json:"scopes"`
}

// ConnectRequest is the body of POST /v1/clusters. The same owner and
// ClusterUID give the same cluster again, with a new credential.
type ConnectRequest struct {
	Name       string `json:"name"`
	ClusterUID string `json:"clusterUID"`
	// ConnectedAs is the id by which the app cluster is connected already: it gets that
	// one, or nothing is made. Empty for a cluster that is not.
	ConnectedAs string `json:"connectedAs,omitempty"`
	// Reclaim is the id or the name of a cluster of the same owner that was lost
	// and that this one takes the place of. It keeps its name.
	Reclaim string `json:"reclaim,omitempty"`
	// Force reclaims even a cluster whose konnector was seen a moment ago.
	Force bool `json:"force,omitempty"`
}

// Cluster answers POST /v1/clusters and is an item of GET /v1/clusters.
type Cluster struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	RepositoryURL string `json:"repositoryURL"`
	// Owner is the username of whom it belongs to, where that is not the caller.
	Owner string `json:"owner,omitempty"`
	// TransferTo is the username of whom the owner offers the cluster.
	TransferTo string `json:"transferTo,omitempty"`
	// Connected is the status of the condition of that name: True, False or
	// Unknown. LastSeen is when the cluster's konnector was here last, if ever.
	Connected string     `json:"connected,omitempty"`
	LastSeen  *time.Time `json:"lastSeen,omitempty"`
	// Foreign is how many claims are held because an object that is not theirs is
	// in their place on the control plane.
	Foreign int32 `json:"foreign,omitempty"`
	// Offers are those that the cluster was granted, by name; only in the answer
	// to a connect.
	Offers []string `json:"offers,omitempty"`
	// Credential is for the konnector, and only in the answer to a connect.
	Credential *Credential `json:"credential,omitempty"`
}

// TransferRequest is the body of POST /v1/clusters/{id}/transfer, by which an owner offers
// a cluster to somebody else; nobody withdraws the offer. With POST
// /v1/clusters/{id}/transfer/accept that user becomes the owner.
type TransferRequest struct {
	// To is a username as the control plane's RBAC has it; the prefix of the owner's
	// issuer may be left out.
	To string `json:"to"`
}

// Credential is an HTTP basic credential for one repository, its events, and what the
// backend tells its agents.
type Credential struct {
	Username string `json:"username"`
	// Password is absent where the backend tells of a credential that it knows
	// the hash of only.
	Password string    `json:"password,omitempty"`
	Expires  time.Time `json:"expires"`
	// RenewAfter is from when on the konnector is to renew it.
	RenewAfter time.Time `json:"renewAfter,omitzero"`
	// Git opens the repository, if that is on a Git host of its own: then the other opens
	// the backend only. It ends with the other.
	Git *GitCredential `json:"git,omitempty"`
	// RepositoryURL is of the repository that it opens, which another host may have had until a
	// moment ago; empty if Git does.
	RepositoryURL string `json:"repositoryURL,omitempty"`
}

// GitCredential is an HTTP basic credential of a Git host.
type GitCredential struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// Expires is when the host ends it by itself, and RenewAfter from when on the konnector
	// is to ask for another one, with POST /v1/clusters/{id}/credential/git. Absent for one
	// that the host does not end.
	Expires    time.Time `json:"expires,omitzero"`
	RenewAfter time.Time `json:"renewAfter,omitzero"`
	// RepositoryURL is of the repository that it opens.
	RepositoryURL string `json:"repositoryURL,omitempty"`
}

// Registration is the body of PUT /v1/clusters/{id}/encryption: the public keys of an
// app cluster, which replace those that are registered.
type Registration struct {
	v1alpha1.EncryptionKeys
	// Signature is of Message, by a signing key that is registered. It is needed unless
	// the cluster was connected since.
	Signature string `json:"signature,omitempty"`
}

// Message is what is signed: for one cluster, and in the place of what was registered, so
// that it counts once.
func (r Registration) Message(cluster string, registered v1alpha1.EncryptionKeys) []byte {
	keys := func(k v1alpha1.EncryptionKeys) string {
		return strings.Join(slices.Sorted(slices.Values(k.Recipients)), " ") + "\n" + strings.Join(slices.Sorted(slices.Values(k.SigningKeys)), " ") + "\n"
	}
	return []byte(cluster + "\n" + keys(registered) + keys(r.EncryptionKeys))
}

// RegistrationPurpose is what the signatures of Registrations are for.
const RegistrationPurpose = "Registration"

// Encryption answers a Registration.
type Encryption struct {
	// Registered are the app cluster's keys that count now, and Refused says why those
	// of the request do not.
	Registered v1alpha1.EncryptionKeys `json:"registered"`
	Refused    string                  `json:"refused,omitempty"`
	// Bridge are the bridge's keys; none as long as no bridge follows the cluster.
	Bridge v1alpha1.EncryptionKeys `json:"bridge"`
}

// Heartbeat is the body of PUT /v1/clusters/{id}/heartbeat, which the process that works
// for an app cluster sends every few seconds.
type Heartbeat struct {
	// Process is its own and nobody else's, from its start to its end.
	Process string `json:"process"`
	// Heard is what the last answer said, "" before the first.
	Heard string `json:"heard,omitempty"`
	// GoneAfter is after how long without a heartbeat another process may work.
	GoneAfter metav1.Duration `json:"goneAfter"`
	// Ending says that it is the last one.
	Ending bool `json:"ending,omitempty"`
}

// HeartbeatAnswer answers a Heartbeat.
type HeartbeatAnswer struct {
	// Heard names this answer, in the next heartbeat.
	Heard string `json:"heard"`
	// Copied says that two copies of the cluster are live: neither is to write anything.
	Copied bool `json:"copied,omitempty"`
	// Alone says that no other process of the cluster is known to be live. Before that, a
	// process is to remove nothing.
	Alone bool `json:"alone,omitempty"`
}

// Offer is an item of GET /v1/catalog: an API that the caller may bind.
type Offer struct {
	Name string               `json:"name"`
	API  v1alpha1.ExportedAPI `json:"api"`
	Kind string               `json:"kind"`
	// DisplayName is never empty, Group may be.
	DisplayName string `json:"displayName"`
	Group       string `json:"group,omitempty"`
	Description string `json:"description,omitempty"`
	// Bound are the names of the caller's clusters that have it.
	Bound []string `json:"bound,omitempty"`
}

// BindRequest is the body of POST /v1/clusters/{id}/bindings: it grants one
// offer to the cluster. Offer is the template's name.
type BindRequest struct {
	Offer string `json:"offer"`
}

// Binding answers a bind.
type Binding struct {
	// Name is "<plural>.<group>", the name for the APIServiceBinding.
	Name  string `json:"name"`
	Offer string `json:"offer"`
}

// Error is the body of every answer with a status of 400 and above.
type Error struct {
	// Message says what is wrong and what to do, for the person who asked.
	Message string `json:"message"`
}

// IsError reports whether an answer is an Error, as the backend's are, and not one of what is in
// front of it, which answers in its place while it is started again.
func IsError(contentType string, body []byte) bool {
	var e Error
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return strings.HasPrefix(contentType, "application/json") && decoder.Decode(&e) == nil && e.Message != ""
}

// Pushed is the body of POST /v1/events?cluster=ID, by which an agent of a cluster tells
// that it has pushed to a repository which is on a host other than the backend's own. The
// other agent is told at once, and need not wait for what that host tells. It is a hint: who
// is told of a head looks whether the branch is there. The answer is 204; 404 or 405 where
// nobody needs to be told.
type Pushed struct {
	// Refs are at most MaxPushedRefs.
	Refs []RefEvent `json:"refs"`
}

// MaxPushedRefs is of how many branches an agent tells at once.
const MaxPushedRefs = 100

// RefEvent is the data of a server-sent event "ref" of GET
// /v1/events?cluster=ID: a branch has moved. A subscriber first gets one event
// for each branch as it stands.
type RefEvent struct {
	// Ref is the full name, for example "refs/heads/main".
	Ref string `json:"ref"`
	// Hash is the new head, empty when the branch was removed.
	Hash string `json:"hash"`
	// Reviewed says that people have said something of it, such as no: it need not have moved.
	Reviewed bool `json:"reviewed,omitempty"`
}
