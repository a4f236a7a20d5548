package restapi

import "strings"

// RepositoryRole is what somebody who does not own a cluster may do with its repository.
// Each has those before it.
type RepositoryRole string

const (
	// RepositoryView is to read it. It is read as a whole, whatever it is shared for.
	RepositoryView RepositoryRole = "view"
	// RepositoryPropose is to push branches below changes/.
	RepositoryPropose RepositoryRole = "propose"
	// RepositoryApprove is to merge what others propose, and so to change services.
	RepositoryApprove RepositoryRole = "approve"
	// RepositoryWrite is to push to main, and so to change services.
	RepositoryWrite RepositoryRole = "write"
)

// RepositoryRoles are all of them, from the least on.
func RepositoryRoles() []RepositoryRole {
	return []RepositoryRole{RepositoryView, RepositoryPropose, RepositoryApprove, RepositoryWrite}
}

// Share lets somebody at a cluster's repository. It is the body of POST
// /v1/clusters/{id}/shares, and an item of GET; DELETE /v1/clusters/{id}/shares/{share}
// takes one back.
type Share struct {
	// ID is the backend's: what is given twice has one id.
	ID   string         `json:"id,omitempty"`
	Role RepositoryRole `json:"role"`
	// User or Group is as the control plane's RBAC has it; in a request the prefix of the
	// owner's issuer may be left out.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// Binding and Namespace limit what may be proposed or written; "" is all. In a
	// request Binding may be a plural or the name of an offer.
	Binding   string `json:"binding,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Offer is, in answers, the offer that Binding is of; "" where it is not bound any more.
	Offer string `json:"offer,omitempty"`
}

// MeansBinding tells whether a person who says word means a binding that is of an offer:
// they say the binding's name, its plural or the offer's name.
func MeansBinding(word, binding, offer string) bool {
	plural, _, _ := strings.Cut(binding, ".")
	return word != "" && (word == binding || word == plural || word == offer)
}
