package restapi

import "time"

// MoreHeader is "true" on the answer to GET /v1/clusters/{id}/changes where there are others that
// it does not list.
const MoreHeader = "Gitbind-More"

// Change is a proposed change: a branch changes/… with commits that main does not have.
// It is an item of GET /v1/clusters/{id}/changes, and as a whole the answer to GET
// /v1/clusters/{id}/changes/{branch}, where {branch} lacks the prefix "changes/".
type Change struct {
	// Branch is the name of the branch, with its prefix; Head the commit at which it
	// stands.
	Branch string `json:"branch"`
	Head   string `json:"head"`
	// Subject, Author and When are those of the head, as it says.
	Subject string    `json:"subject"`
	Author  string    `json:"author"`
	When    time.Time `json:"when"`
	// ProposedBy are the users who pushed commits of it, as the backend saw them.
	ProposedBy []string `json:"proposedBy,omitempty"`
	// Rejected says that somebody rejected the head.
	Rejected bool `json:"rejected,omitempty"`

	// What follows is in the answer about one change only.

	// Effect is a digest of what a merge would change. It is empty where nothing can be
	// merged.
	Effect string `json:"effect,omitempty"`
	// Files are what a merge would change.
	Files []ChangedFile `json:"files,omitempty"`
	// Conflicts are the files that main has changed meanwhile, too.
	Conflicts []string `json:"conflicts,omitempty"`
	// Commits are those that main does not have, the newest first.
	Commits []ChangeCommit `json:"commits,omitempty"`
	// Events are what happened to it, the oldest first.
	Events []ChangeEvent `json:"events,omitempty"`
	// MayApprove, MayReject and MayComment say what the caller may do. Blocked says in
	// words why they may not approve.
	MayApprove bool   `json:"mayApprove,omitempty"`
	MayReject  bool   `json:"mayReject,omitempty"`
	MayComment bool   `json:"mayComment,omitempty"`
	Blocked    string `json:"blocked,omitempty"`
}

// Action is what becomes of a file.
type Action string

// The actions.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	ActionDelete Action = "delete"
)

// ChangedFile is a file that a merge would change.
type ChangedFile struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	// Binding, Namespace and Name are those of the claim that the file is, and Kind its
	// kind; empty for other files.
	Binding   string `json:"binding,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Kind      string `json:"kind,omitempty"`
	// Fields are what changes in a claim; MoreFields how many more there are.
	Fields     []FieldChange `json:"fields,omitempty"`
	MoreFields int           `json:"moreFields,omitempty"`
	// Problem says why the control plane would not take the file.
	Problem string `json:"problem,omitempty"`
	// Held says why a removal would not be done when the change is merged, but wait for a
	// person once more.
	Held string `json:"held,omitempty"`
	// Unbinding says what becomes of the claims of an API, where the file is its request and
	// goes, or has them go with it from then on.
	Unbinding string `json:"unbinding,omitempty"`
	// Waits says why the control plane would not do at once what the file says, but when its
	// quota has room.
	Waits string `json:"waits,omitempty"`
	// Untried says why it is not known what the control plane's API server says to it, empty
	// where it was tried there, and for what is no claim or would not be taken anyway.
	Untried string `json:"untried,omitempty"`
	// Effective are the fields that would change on the control plane otherwise than Fields
	// says, and Unchanged those of Fields that would not.
	Effective []FieldChange `json:"effective,omitempty"`
	Unchanged []string      `json:"unchanged,omitempty"`
	// Diff is a unified diff of the file, without its header; Cut says that it is longer.
	Diff []string `json:"diff,omitempty"`
	Cut  bool     `json:"cut,omitempty"`
}

// FieldChange is a field with another value, as JSON except for strings; "" where there is
// no such field.
type FieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// ChangeCommit is a commit of a proposed change, as its author wrote it.
type ChangeCommit struct {
	Hash    string    `json:"hash"`
	Author  string    `json:"author"`
	When    time.Time `json:"when"`
	Subject string    `json:"subject"`
}

// ChangeEvent is something that a person did with a proposed change.
type ChangeEvent struct {
	// What is pushed, commented, approved or rejected.
	What string    `json:"what"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	// Commit is the one that it was about.
	Commit  string `json:"commit"`
	Message string `json:"message,omitempty"`
}

// Verdict is what a person says of a proposed change.
type Verdict string

// The verdicts.
const (
	VerdictComment Verdict = "comment"
	VerdictReject  Verdict = "reject"
	// VerdictApprove merges the change into main.
	VerdictApprove Verdict = "approve"
)

// Review is the body of POST /v1/clusters/{id}/reviews.
type Review struct {
	Branch string `json:"branch"`
	// Head and Effect are of the Change that the person has seen; Effect is for an
	// approval only.
	Head    string  `json:"head"`
	Effect  string  `json:"effect,omitempty"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"message,omitempty"`
}

// Reviewed answers a Review. Merged is the commit by which main has an approved change.
type Reviewed struct {
	Merged string `json:"merged,omitempty"`
}
