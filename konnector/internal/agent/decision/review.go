package decision

import (
	"cmp"
	"fmt"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/choice"
)

// Proposed is a change of the object that was proposed on a branch.
type Proposed struct {
	Branch, Commit string
	// Blob is Git's name of the file that was proposed, "" for its removal, and Main that of
	// the file that main had then, "" for none.
	Blob, Main string
	// Live says that the object still says what was proposed of it.
	Live bool
	// Begun says that another change was about to be pushed: what the branch has is not known.
	Begun bool
}

// Verdict is what became of a proposed change.
type Verdict struct {
	State VerdictState
	// By is who rejected it, and Message what they said; "" where that is not known.
	By, Message string
	// Page is where people look at it; "" where that is not known.
	Page string
}

// VerdictState is where a proposed change is.
type VerdictState string

// The states. Unknown is for a Git host that nobody can be asked about.
const (
	VerdictUnknown  VerdictState = "Unknown"
	VerdictOpen     VerdictState = "Open"
	VerdictRejected VerdictState = "Rejected"
	// VerdictClosed: its branch is gone, and main has not got its commits.
	VerdictClosed VerdictState = "Closed"
	// VerdictLost: the repository was restored to before its commits were pushed.
	VerdictLost VerdictState = "Lost"
	// VerdictMerged: main has its commits, and the agent may not have seen that yet.
	VerdictMerged VerdictState = "Merged"
	// VerdictSeen: the main that was looked at has them.
	VerdictSeen VerdictState = "Seen"
)

// reviewed reports whether what this agent does to main must be approved.
func (f Facts) reviewed() bool { return f.Review && f.Emergency == "" && !f.Unbinding }

// needsVerdict reports whether a change of main waits for what becomes of a proposal. An
// emergency is for what is changed after it was declared, and who has changes reviewed no
// more has decided on none of them: what was proposed before, as it is, waits still.
//
// It is wider than isProposed, as what waits without being what was proposed is to be
// proposed first: any change where changes are reviewed, and what may be the removal that was proposed.
func (f Facts) needsVerdict(d Decision) bool {
	p := f.Proposed
	switch {
	case f.reviewed(), f.Unbinding, p == nil:
		return f.reviewed()
	case d.Action == RemoveFile:
		// A person may have decided on it, or it was about to be pushed.
		return p.Blob == "" || p.Begun
	}
	// An edit is pushed once more where that may have failed.
	return f.Review && p.Begun && p.Live && d.Chosen == "" || f.isProposed(d)
}

// isProposed reports whether a change of main is the one that was proposed. It is that also where
// main's file is another one by now, unless a person has decided on that one, or it has what was proposed.
func (f Facts) isProposed(d Decision) bool {
	p := f.Proposed
	switch {
	case p == nil, p.Begun, d.Chosen != "" && p.Main != f.FileBlob:
		return false
	case d.Action == RemoveFile:
		return p.Blob == ""
	case d.Action == Merge && contract.Equal(f.Merged, f.File):
		return false
	}
	return p.Live
}

// review has proposed what would otherwise be done to main, where changes that are made in
// the cluster are reviewed. A proposal that is of no use any more is withdrawn.
func (f Facts) review(d Decision) Decision {
	switch {
	case (d.Action == Commit || d.Action == Merge || d.Action == RemoveFile) && f.needsVerdict(d):
		proposed := f.propose(d)
		switch proposed.Action {
		case Hold, GiveWay, Revert:
			// What a person may decide there is another thing.
		default:
			proposed.Chosen = cmp.Or(proposed.Chosen, d.Chosen)
		}
		return proposed
	case f.Proposed == nil || f.Live == nil || !f.Finalizer:
	case d.Action == Nothing || d.Action == Wait || d.Action == Release:
		return Decision{Action: Withdraw, Chosen: d.Chosen}
	}
	return d
}

// propose is for a change of main that somebody must approve.
func (f Facts) propose(d Decision) Decision {
	if !f.isProposed(d) {
		return f.again(d)
	}
	if f.Verdict == nil {
		return ask(AskVerdict)
	}
	switch f.Verdict.State {
	case VerdictSeen:
		return do(RebaseProposed)
	case VerdictRejected, VerdictClosed:
		return f.rejected(d)
	}
	switch {
	case d.Action != RemoveFile && !f.Review:
		return d
	case d.Action == Merge, f.Proposed.Main != f.FileBlob, f.Verdict.State == VerdictLost:
		return f.again(d)
	default:
		return f.await()
	}
}

// again proposes a change on top of main as it is now.
func (f Facts) again(d Decision) Decision {
	switch {
	case d.Action != Merge:
		return do(Propose)
	case f.reviewed():
		// What comes of it is proposed next.
		return do(WriteMerged)
	case f.Verdict == nil:
		return ask(AskVerdict)
	default:
		// In an emergency, what is merged would pass as a change that was made after it was declared.
		return f.await()
	}
}

// rejected is for a change that nobody is going to approve as it is. What a person has
// decided is not reverted unasked.
func (f Facts) rejected(change Decision) Decision {
	if change.Chosen != "" {
		// It was proposed.
		f.Resolve = ""
	}
	d := f.hold(Rejected)
	if d.Action == Hold && change.Chosen == "" && f.reverts() {
		switch {
		case f.Terminating:
			return do(Release)
		case f.File != nil:
			d = Decision{Action: GiveWay}
		}
	}
	if d.Action == GiveWay {
		d.Reason = Rejected
		if f.Verdict.State == VerdictRejected {
			// The branch on which it was proposed keeps it.
			d.Action = Revert
		}
	}
	return d
}

// reverts reports whether an object is to say what main says, once its change is rejected.
func (f Facts) reverts() bool {
	return f.OnRejection == v1alpha1.OnRejectionRevert && f.Refusal == "" && f.Writer != v1alpha1.WriterCluster
}

// await says where the change is, and how it goes on.
func (f Facts) await() Decision {
	what, who := "This change", "somebody else approves it"
	if f.Terminating {
		// Who deleted it, the API server does not say.
		what, who = "The removal of this claim, and of its service,", "somebody approves it"
	}
	if f.Verdict.State == VerdictMerged {
		return Decision{Action: AwaitReview, Message: what + " is approved, and main has it in a moment."}
	}
	where := "kubectl gitbind review " + f.Proposed.Branch
	if f.Verdict.Page != "" {
		where = f.Verdict.Page + ", or " + where
	}
	message := fmt.Sprintf("%s is proposed, and nothing is done until %s: %s", what, who, where)
	return Decision{Action: AwaitReview, Message: message + f.emergencyMessage()}
}

// emergencyWords are for who declares an emergency and changes nothing then.
const emergencyWords = " An emergency lets pass what is changed after it was declared, and not what was proposed before."

func (f Facts) emergencyMessage() string {
	if f.Emergency == "" {
		return ""
	}
	return emergencyWords
}

// rejectedMessage says who rejected the change, why, and what can be done.
func (f Facts) rejectedMessage() string {
	who := "Somebody"
	if f.Verdict.By != "" {
		who = f.Verdict.By
	}
	said := "."
	if f.Verdict.Message != "" {
		said = fmt.Sprintf(": %q.", f.Verdict.Message)
	}
	words := fmt.Sprintf("%s rejected this change%s It is on branch %s.", who, said, f.Proposed.Branch)
	if f.Verdict.State == VerdictClosed {
		words = fmt.Sprintf("This change was closed without being merged: there is no branch %s any more.", f.Proposed.Branch)
	}
	switch {
	case f.Terminating:
		words += " The file stays on main, and the service is kept. " + decide + ": release lets this object go, which is then created again from the file."
	case f.File != nil:
		words += fmt.Sprintf(" Main keeps what it says in %s, and so does the service. Change this object again to propose something else, or "+decideHere+": file writes the file into it.", f.Key.Path())
	default:
		words += " Nothing was ordered. Change this object to propose something else, or delete it."
	}
	return words + f.emergencyMessage()
}

// rejectedChoices are what can be decided on a rejected change.
func (f Facts) rejectedChoices() []choice.Choice {
	switch {
	case f.Terminating:
		return []choice.Choice{choice.Release}
	case f.File != nil:
		return []choice.Choice{choice.File}
	}
	return nil
}
