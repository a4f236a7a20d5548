// Package request says, from facts alone, what the bridge does about an app
// cluster's request for an API and what it answers. It is pure.
//
// What it guards: only what the cluster's own ServiceAccount may bind is bound,
// never what somebody who is away might; a request that is missing unbinds
// nothing unless somebody removed it; and no API goes from under its claims.
package request

import "gitbind.dev/gitbridge/contract"

// Facts are what is known of one request.
type Facts struct {
	Path    string
	Binding string
	// ServiceAccount is "<namespace>:<name>", as kubectl takes it.
	ServiceAccount string
	// Head is the commit of main that File is of.
	Head string
	// File is nil when main has none.
	File *File
	// Present is the answer that is on status, nil if there is none.
	Present *contract.Status
	// Export is what the cluster has of the API, nil for nothing.
	Export *Export
	// Offers are those of the API, and the one that the file or the export names,
	// if they exist.
	Offers []Offer
	// Removed says that a commit which was followed took the file away.
	Removed bool
	// Claim is one that is still there, "" for none.
	Claim string
}

// File is a request on main.
type File struct {
	Blob string
	// Problem is why it is refused, nil if it is not: then Request is set.
	Problem *contract.Problem
	Request contract.Request
	// Line is the one that says what is wanted.
	Line int
}

// Export is an APIServiceExport.
type Export struct {
	Template    string
	Terminating bool
}

// Offer is an APIServiceExportTemplate.
type Offer struct {
	Name    string
	Binding string
	// Permitted says that the cluster's ServiceAccount may bind it, and Offered
	// that it can be bound.
	Permitted, Offered bool
}

// Effect is what to do on the control plane.
type Effect string

const (
	// Nothing is to be done but to answer.
	Nothing Effect = "Nothing"
	// Grant makes the export.
	Grant Effect = "Grant"
	// Withdraw deletes it.
	Withdraw Effect = "Withdraw"
)

// Decision is what to do, and what to answer once it is done.
type Decision struct {
	Effect Effect
	// Template is the one to grant.
	Template string
	// Answer is nil for none. It shares memory with the facts.
	Answer *contract.Status
	// Permitted says whether the cluster may bind what it has, nil where
	// nobody asks that.
	Permitted *bool
}
