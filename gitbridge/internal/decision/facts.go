// Package decision says, from facts alone, what the bridge does about one path
// of main and what it answers. It is pure: it reads nothing and changes
// nothing, so the same facts always give the same decision.
//
// What it guards: nothing is deleted because it is missing, and an object that
// was there and is gone is never made again by itself.
package decision

import (
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
)

// Facts are what is known of one path of main.
type Facts struct {
	// Cluster is the app cluster's id, for people.
	Cluster string
	Path    string
	// Key is the claim's; IsClaim is false for a path that is none.
	Key     contract.Key
	IsClaim bool
	// Head is the commit of main that File is of.
	Head string
	// File is nil when main has none at the path.
	File *File
	// Access says whether the cluster may use the API.
	Access Access
	// Why says what is in the way of an API that is NotServed, "" where that is not known.
	Why string
	// Unpermitted says that the cluster may not bind the API any more: nothing new
	// is ordered.
	Unpermitted bool
	// Live is the object on the control plane, nil if there is none, as far as
	// watching tells; Certain says that the API server itself was asked.
	Live    *Live
	Certain bool
	// Present is the answer that is on status, nil if there is none.
	Present *contract.Status
	// Held says that main is not followed at present.
	Held bool
	// Now is the time of the decision, as RFC 3339.
	Now string
	// Removal is the verdict on the removal of a file that main lacks, nil where it is
	// not known how it went.
	Removal *guard.Verdict
	// Recreate says that a person wants the object made again if it is missing.
	Recreate bool
	// UID is that of the claim in the app cluster, where commits named it since
	// the last answer.
	UID string
}

// File is a file on main.
type File struct {
	Blob string
	// Problem is why the file is refused, nil if it is not.
	Problem *contract.Problem
	// Applied is the hash that its object carries once applied.
	Applied string
	// Refusal says why it cannot be applied although it is a good file, nil if it
	// can.
	Refusal *Refusal
	// Note is for people, beside a success, and Effective are the fields of spec
	// that the platform's template changed.
	Note      string
	Effective map[string]any
	// Contest says, for people, that somebody keeps changing what is applied.
	Contest string
}

// Refusal is what a file is answered with that is not applied.
type Refusal struct {
	Result  contract.Result
	Message string
}

// Live is an object on the control plane.
type Live struct {
	// Name is "<namespace>/<name>".
	Name        string
	Terminating bool
	// Applied is the hash that the object carries.
	Applied string
	// Drifted says that somebody changed, or took away, what was applied.
	Drifted bool
	// Foreign says that somebody else made it, and Adopted that an operator gives
	// it to the app cluster.
	Foreign, Adopted bool
	Status           map[string]any
}

// Access is whether an app cluster may use an API.
type Access string

// What access there can be.
const (
	Granted    Access = "Granted"
	NotBound   Access = "NotBound"   // there is no export
	NotGranted Access = "NotGranted" // there is one, without rights yet
	NotServed  Access = "NotServed"  // the control plane has no such API
	NotWatched Access = "NotWatched" // the bridge cannot see its objects
)

// Effect is what to do on the control plane.
type Effect string

const (
	// Nothing is to be done but to answer.
	Nothing Effect = "Nothing"
	// Ask the API server for the object, and decide again with Certain.
	Ask Effect = "Ask"
	// Apply the file, and answer with Facts.Applied or Facts.Refused.
	Apply Effect = "Apply"
	// Correct is to apply the file again where the object is not as it was
	// applied, and to answer likewise.
	Correct Effect = "Correct"
	// Delete the object, and answer with Facts.Deleting.
	Delete Effect = "Delete"
	// Leave the answer as it is, and decide again later.
	Leave Effect = "Leave"
	// Hold the removal, which passed, until a person approves it, and decide again.
	Hold Effect = "Hold"
)

// Decision is what to do, and what to answer.
type Decision struct {
	Effect Effect
	// Answer is the ClaimStatus, nil for none, when Effect is Nothing. It shares
	// memory with the facts.
	Answer *contract.Status
	// Again asks for another decision once the answer is written.
	Again bool
}

func answer(s *contract.Status) Decision { return Decision{Effect: Nothing, Answer: s} }
