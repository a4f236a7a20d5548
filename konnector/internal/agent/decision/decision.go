// Package decision says what the konnector does for one claim, from what is
// known of it. It is level-triggered and pure: no client, no Git, no clock, no
// memory. It changes nothing, and the caller that acts on a decision must make sure
// that the facts still hold when the action takes effect.
//
//   - decision.go: what is known and what can be done; For, and the order of its rules
//   - present.go: an object that is to stay, or none: which side has changed
//   - bothchanged.go: object and file have changed: they are merged, or the file wins
//   - terminating.go: an object that is being deleted
//   - review.go: what is proposed, and not committed
//   - choice.go: what is held, with what a person can choose; holdwords.go: its words
package decision

import (
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/konnector/internal/choice"
)

// Facts are what is known of one claim.
type Facts struct {
	Key contract.Key
	// UID is the object's.
	UID string
	// Unfit is why the object's name cannot be a path in Git; nil if it can.
	Unfit error

	// Live is the object in the app cluster, normalized; nil for none.
	Live *contract.Claim
	// Finalizer says that the object has ours.
	Finalizer bool
	// Touched says that somebody may have edited the object since Base, even if
	// it equals Base: there and back again.
	Touched bool
	// Terminating says that the object's delete has begun.
	Terminating bool
	// Ending is why, where that is not the object itself, and Owners how many owners the
	// object has where it is OwnerEnds.
	Ending Ending
	Owners int
	// Paused says that a person wants the claim left as it is.
	Paused bool
	// Resolve is a person's decision, "<choice>.<token>"; "" for none.
	Resolve string

	// File is the file on main, normalized; nil when there is none, or it has
	// a Problem. Where it is byte by byte the one that Base was made from, it
	// is Base: a file that nobody touched has not changed, even if new defaults
	// or a webhook make the API server read more into it.
	File *contract.Claim
	// FileBlob is Git's name of its content; "" for no file.
	FileBlob string
	// Problem is why the file on main cannot be read as a claim.
	Problem error
	// NamespaceMissing says that the object's namespace does not exist. Where there is
	// an object, it was left behind, and the API server changes nothing of it.
	NamespaceMissing bool
	// Refusal is why this cluster does not take what the file says, mostly in its API
	// server's own words.
	Refusal string
	// MergeRefusal is why it does not take what a merge makes of both sides,
	// LostRefusal why the version that lost cannot be brought back.
	MergeRefusal, LostRefusal string

	// Base is the version that both last agreed on, normalized; nil for none.
	Base *contract.Claim
	// BaseCommit is the commit of main at which they did. Without Base it is the one at
	// which they once did, as the object's status says: somebody took its base away.
	BaseCommit string
	// BaseRemoved says that since Base both agreed that the claim goes.
	BaseRemoved bool
	// BaseCurrent is false when Base holds what it should, but was made under
	// another Connection, or at a commit that is no part of main any more.
	BaseCurrent bool
	// Lost is the conflict that the object's version lost; nil when there was
	// none, or it is over.
	Lost *Lost

	// Writer says who may change claims of this API; "" is Both.
	Writer v1alpha1.Writer
	// Review says that changes that are made in this cluster are proposed, and come to main
	// once somebody has approved them, and OnRejection what becomes of the object
	// otherwise; "" is Keep. Emergency is why a change cannot wait for that; "" if it can.
	Review      bool
	OnRejection v1alpha1.OnRejection
	Emergency   string
	// Unbinding says that the object is being deleted with its API: who unbinds that together
	// with its claims has decided on all of them.
	Unbinding bool
	// Proposed is what was proposed last, nil for nothing.
	Proposed *Proposed
	// Elsewhere says, in words, that the claim's namespace does not belong to the
	// Connection; "" when it does.
	Elsewhere string
	// Replaced says that main no longer continues the history that was
	// accepted, in words; "" when it does.
	Replaced string
	// Copied says that another copy of the cluster is live, in words; "" when none is
	// known.
	Copied string

	// ManyWrites says that the agent has committed and written this claim so often
	// that it is answered each time: in words, which fields and who writes them. ""
	// says that it has not.
	ManyWrites string

	// These are costly to know. A decision that needs one of them asks for it.

	// OwnWork: the file is as this agent pushed it last, for this very object.
	// If not, Interrupted says what came of a push since Base that Base does not
	// know of.
	OwnWork     Answer
	Interrupted Interrupted
	// HistoryTooLong: main has more history than is read, since BaseCommit or since the object was
	// made. Where OwnWork or Continues is No, and Interrupted says that there was no such push, it
	// cannot be told.
	HistoryTooLong bool
	// Continues: the head of main descends from the commit at which both last
	// agreed on this claim, under the same Connection.
	Continues Answer
	// Gone: the control plane says that nothing of this claim is left.
	Gone Answer
	// Merges: both sides changed other fields since Base, and Merged is what
	// comes of it. If not, Fields are those that both changed.
	Merges Answer
	Merged *contract.Claim
	Fields []string
	// Flips: the object's change is one more turn of a field that goes to and
	// fro between cluster and Git. FlipWords name it and who writes it.
	Flips     Answer
	FlipWords string
	// Removal is the guard's verdict on the claim's removal, nil before it was asked
	// for.
	Removal *guard.Verdict
	// Verdict is what became of Proposed, nil before it was asked for.
	Verdict *Verdict
}

// Lost is a conflict that Git won.
type Lost struct {
	// Reason is that of the decision to give way.
	Reason Reason `json:"reason"`
	// Branch keeps the version that lost.
	Branch string `json:"branch"`
	// Fields are those that both changed; none where nothing was in common.
	Fields []string `json:"fields,omitempty"`
	// Users are those who changed the version that lost.
	Users []string `json:"users,omitempty"`
}

// Answer is to a question of fact.
type Answer int8

// The answers. The zero value has not been asked for yet.
const (
	Unasked Answer = iota
	No
	Yes
)

// Interrupted is how an object and a push of it stand to each other, where the
// push was not recorded and others have changed the file, with it or since.
type Interrupted int8

// The zero value says that there was no such push.
const (
	NotInterrupted Interrupted = iota
	// AllPushed: the object is as it was pushed.
	AllPushed
	// EditedSince: it is not, and which of its fields were edited since cannot be
	// told.
	EditedSince
)

// Ending is what takes an object along with it.
type Ending string

// What ends together with its objects.
const (
	NamespaceEnds Ending = "namespace"
	APIEnds       Ending = "CustomResourceDefinition"
	// OwnerEnds: the object has owners, and none that is known to stay.
	OwnerEnds Ending = "owner"
)

// MaxOwners is of how many owners of an object it is looked at most whether one stays:
// of none where it has more. Objects mostly have one.
const MaxOwners = 16

// EndingOf is what the object ended with, of which a hold with this reason tells; "" for
// any other reason.
func EndingOf(why Reason) Ending {
	return map[Reason]Ending{NamespaceDeleted: NamespaceEnds, APIDeleted: APIEnds, OwnerDeleted: OwnerEnds}[why]
}

// Action is what to do.
type Action string

// The actions.
const (
	// Nothing: both agree, or there is nothing that may be done.
	Nothing Action = "Nothing"
	// Record keeps the object's version as base, and puts the finalizer on.
	Record Action = "Record"
	// Commit puts the object's version into the file.
	Commit Action = "Commit"
	// Rebase keeps the file's version as base: the push was this agent's own,
	// and it ended before it could say so.
	Rebase Action = "Rebase"
	// Write puts the file's version into the object.
	Write Action = "Write"
	// Merge puts what both sides changed into the file and into the object.
	Merge Action = "Merge"
	// WriteMerged puts what both sides changed into the object alone: main has it once it
	// is approved.
	WriteMerged Action = "WriteMerged"
	// Propose puts the object's version, or the removal of its file, on a branch.
	Propose Action = "Propose"
	// AwaitReview: nothing is done until somebody has approved what was proposed.
	AwaitReview Action = "AwaitReview"
	// RebaseProposed keeps as base what was proposed: main had it, and says something else
	// since.
	RebaseProposed Action = "RebaseProposed"
	// Revert puts the file's version into the object, whose own was rejected.
	Revert Action = "Revert"
	// Withdraw takes back what was proposed, as there is nothing to approve any more.
	Withdraw Action = "Withdraw"
	// GiveWay keeps the object's version on a branch, and puts the file's version
	// into the object.
	GiveWay Action = "GiveWay"
	// TakeBack puts the version that lost a conflict into the object again.
	TakeBack Action = "TakeBack"
	// Create makes the object from the file.
	Create Action = "Create"
	// Delete deletes the object.
	Delete Action = "Delete"
	// RemoveFile takes the file off main.
	RemoveFile Action = "RemoveFile"
	// RecordRemoved keeps with the base that the file is gone.
	RecordRemoved Action = "RecordRemoved"
	// Release takes the finalizer off.
	Release Action = "Release"
	// Wait: the control plane has not finished.
	Wait Action = "Wait"
	// Hold: nothing is done until a person decides.
	Hold Action = "Hold"
	// Ask: Question must be answered first.
	Ask Action = "Ask"
)

// Question names the fact that a decision needs.
type Question string

// The questions.
const (
	AskOwnWork   Question = "OwnWork"
	AskContinues Question = "Continues"
	AskGone      Question = "Gone"
	AskMerge     Question = "Merge"
	AskFlips     Question = "Flips"
	AskRemoval   Question = "Removal"
	AskVerdict   Question = "Verdict"
)

// Reason says in one word why a claim is held, or what it gave way to.
type Reason string

// The reasons.
const (
	HistoryReplaced   Reason = "HistoryReplaced"
	Copied            Reason = "Copied"
	BothExist         Reason = "BothExist"
	BothChanged       Reason = "BothChanged"
	ChangedAndRemoved Reason = "ChangedAndRemoved"
	FileMissing       Reason = "FileMissing"
	CommitLost        Reason = "CommitLost"
	HistoryTooLong    Reason = "HistoryTooLong"
	FileInvalid       Reason = "FileInvalid"
	FileRefused       Reason = "FileRefused"
	DeletedAndChanged Reason = "DeletedAndChanged"
	FileCameBack      Reason = "FileCameBack"
	NamespaceMissing  Reason = "NamespaceMissing"
	NamespaceDeleted  Reason = "NamespaceDeleted"
	APIDeleted        Reason = "APIDeleted"
	OwnerDeleted      Reason = "OwnerDeleted"
	NameUnfit         Reason = "NameUnfit"
	FlipFlop          Reason = "FlipFlop"
	ManyWrites        Reason = "ManyWrites"
	ManyRemovals      Reason = Reason(contract.ManyRemovals)
	Moved             Reason = Reason(contract.Moved)
	NotServed         Reason = "NotServed"
	GitWrites         Reason = "GitWrites"
	ClusterWrites     Reason = "ClusterWrites"
	Rejected          Reason = "Rejected"
	Paused            Reason = "Paused"
)

// Decision is what to do. For a Hold it has the reason and a message; for Nothing
// it has them while a conflict that the object lost is to be looked at. For AwaitReview it
// has a message.
type Decision struct {
	Action   Action
	Question Question
	Reason   Reason
	// Message says what happened and what to do, to the object's owner.
	Message string
	// Choices are the decisions that a person can take here, and Token names
	// what they are about: another edit makes another one.
	Choices []choice.Choice
	Token   string
	// Chosen is the person's decision that led to this one; "" for none.
	Chosen choice.Choice
}

func do(a Action) Decision    { return Decision{Action: a} }
func ask(q Question) Decision { return Decision{Action: Ask, Question: q} }

// For decides. decide has the rows of the table in the design, section 4; what stands
// around it counts for all rows, in an order that matters:
//
//   - No row counts where nothing can be written, where a person wants nothing done, and
//     in a namespace that is none of the Connection's.
//   - The guard is asked before review, which makes a proposal of a removal: one that
//     somebody has to approve is not held for being one of many, too.
//   - A copy of the cluster, and a main of another history, hold whatever would be done,
//     also a proposal and a person's choice. They come after review and not first, as
//     they do not hide what needs no action, or waits for the control plane.
//   - ManyWrites needs to know that the action writes. What a person then chooses may be a
//     commit, and passes review in its turn.
func For(f Facts) Decision {
	if f.NamespaceMissing && f.Live != nil && (f.Finalizer || !f.Terminating) {
		return f.hold(NamespaceDeleted)
	}
	if f.Paused && f.Live != nil {
		return f.hold(Paused)
	}
	if f.Elsewhere != "" {
		return f.elsewhere()
	}
	d := f.decide()
	if d.Chosen == "" && (d.Action == Delete || d.Action == RemoveFile && !f.needsVerdict(d)) {
		d = f.gate(d)
	}
	d = f.review(d)
	if f.Copied != "" && d.Action != Nothing && d.Action != Wait {
		return f.hold(Copied)
	}
	if f.Replaced != "" && d.Action != Nothing && d.Action != Wait {
		return f.hold(HistoryReplaced)
	}
	if f.ManyWrites != "" && d.Chosen == "" && (f.File != nil || f.Proposed != nil) && d.Action.writes() {
		return f.review(f.hold(ManyWrites))
	}
	return d
}

// writes reports whether an action writes a claim, here or in Git, so that others may
// answer it with a write of theirs.
func (a Action) writes() bool {
	switch a {
	case Record, Commit, Write, Merge, WriteMerged, Propose, GiveWay:
		return true
	}
	return false
}

func (f Facts) decide() Decision {
	switch {
	case f.Live == nil:
		return f.absent()
	case f.Terminating:
		return f.terminating()
	default:
		return f.present()
	}
}

// elsewhere is for a claim that is none of this Connection's business.
func (f Facts) elsewhere() Decision {
	switch {
	case f.Live == nil && f.File == nil && f.Problem == nil, f.Terminating && !f.Finalizer:
		return do(Nothing)
	case f.Terminating && f.Base == nil:
		// It never was.
		return do(Release)
	default:
		return f.hold(NotServed)
	}
}

// gate lets a removal pass, unless the guard holds it.
func (f Facts) gate(d Decision) Decision {
	switch {
	case f.Removal == nil:
		return ask(AskRemoval)
	case !f.Removal.IsHeld():
		return d
	default:
		return f.hold(Reason(f.Removal.Reason))
	}
}

// whoChanged tells a change of the file by this agent from one by others.
func (f Facts) whoChanged(own, others Decision) Decision {
	switch f.OwnWork {
	case Unasked:
		return ask(AskOwnWork)
	case Yes:
		return own
	default:
		return others
	}
}

func (f Facts) liveChanged() bool { return !contract.Equal(f.Live, f.Base) }
func (f Facts) fileChanged() bool { return !contract.Equal(f.File, f.Base) }
