package restapi

// Proposal answers GET /v1/clusters/{id}/proposal?branch=…&commit=…, by which a konnector
// asks what became of a commit that it has proposed on a branch.
type Proposal struct {
	State ProposalState `json:"state"`
	// By is who rejected it, and Message what they said.
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
	// Page is where people look at it.
	Page string `json:"page,omitempty"`
}

// ProposalState is where a proposed change is.
type ProposalState string

// The states.
const (
	ProposalOpen ProposalState = "open"
	// ProposalRejected: somebody rejected the branch as it is.
	ProposalRejected ProposalState = "rejected"
	// ProposalMerged: main has the commit.
	ProposalMerged ProposalState = "merged"
	// ProposalClosed: the branch is gone, and main does not have the commit.
	ProposalClosed ProposalState = "closed"
	// ProposalLost: the repository does not have the commit, or its branch has gone back to
	// before it, as it was restored from a backup; or the branch has another commit of the
	// konnector's in its place, as the app cluster was. The backend may not have seen the
	// commit yet.
	ProposalLost ProposalState = "lost"
)
