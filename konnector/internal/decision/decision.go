// Package decision says what the konnector does for one claim, from what is
// known of it. It is level-triggered and pure: no client, no Git, no clock, no
// memory. It changes nothing, and whoever acts on a decision must make sure
// that the facts still hold when the action takes effect.
package decision

import "gitbind.dev/gitbridge/claim"

// Facts are what is known of one claim.
type Facts struct {
	Key claim.Key
	// Unfit is why the object's name cannot be a path in Git; nil if it can.
	Unfit error

	// Live is the object in the app cluster, normalized; nil for none.
	Live *claim.Claim
	// Finalizer says that the object has ours.
	Finalizer bool
	// Touched says that somebody may have edited the object since Base, even if
	// it equals Base: there and back again.
	Touched bool
	// Terminating says that the object's delete has begun.
	Terminating bool
	// Ending is why, where that is not the object itself.
	Ending Ending

	// File is the file on main, normalized; nil when there is none, or it has
	// a Problem. Where it is byte by byte the one that Base was made from, it
	// is Base: a file that nobody touched has not changed, even if new defaults
	// or a webhook make the API server read more into it.
	File *claim.Claim
	// Problem is why the file on main cannot be read as a claim.
	Problem error
	// NamespaceMissing says that the object's namespace does not exist.
	NamespaceMissing bool
	// Refusal is why the API server does not take what the file says, in its
	// own words.
	Refusal string

	// Base is the version that both last agreed on, normalized; nil for none.
	Base *claim.Claim
	// BaseRemoved says that since Base both agreed that the claim goes.
	BaseRemoved bool
	// BaseCurrent is false when Base holds what it should, but was made under
	// another Connection.
	BaseCurrent bool

	// Replaced says that main no longer continues the history that was
	// accepted, in words; "" when it does.
	Replaced string

	// These are costly to know. A decision that needs one of them asks for it.

	// OwnWork: the file is as this agent pushed it last, for this very object.
	OwnWork Answer
	// Continues: the head of main descends from the commit at which both last
	// agreed on this claim, under the same Connection.
	Continues Answer
	// Gone: the control plane says that nothing of this claim is left.
	Gone Answer
}

// Answer is to a question of fact.
type Answer int8

// The answers. The zero value has not been asked for yet.
const (
	Unasked Answer = iota
	No
	Yes
)

// Ending is what takes an object along with it.
type Ending string

// What ends together with its objects.
const (
	NamespaceEnds Ending = "namespace"
	APIEnds       Ending = "CustomResourceDefinition"
)

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
)

// Reason says in one word why a claim is held.
type Reason string

// The reasons of a Hold.
const (
	HistoryReplaced   Reason = "HistoryReplaced"
	BothExist         Reason = "BothExist"
	BothChanged       Reason = "BothChanged"
	ChangedAndRemoved Reason = "ChangedAndRemoved"
	FileMissing       Reason = "FileMissing"
	FileInvalid       Reason = "FileInvalid"
	FileRefused       Reason = "FileRefused"
	DeletedAndChanged Reason = "DeletedAndChanged"
	FileCameBack      Reason = "FileCameBack"
	NamespaceMissing  Reason = "NamespaceMissing"
	NamespaceDeleted  Reason = "NamespaceDeleted"
	APIDeleted        Reason = "APIDeleted"
	NameUnfit         Reason = "NameUnfit"
	ManyRemovals      Reason = "ManyRemovals"
)

// Decision is what to do, and for a Hold why.
type Decision struct {
	Action   Action
	Question Question
	Reason   Reason
	// Message says what happened and what to do, to the object's owner.
	Message string
}

func do(a Action) Decision    { return Decision{Action: a} }
func ask(q Question) Decision { return Decision{Action: Ask, Question: q} }

// For decides. Its cases are the rows of the table in the design, section 4.
func For(f Facts) Decision {
	d := f.decide()
	if f.Replaced != "" && d.Action != Nothing && d.Action != Wait {
		return f.hold(HistoryReplaced)
	}
	return d
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

// absent is for a claim that has no object. Its absence says nothing: it never
// removes a file.
func (f Facts) absent() Decision {
	switch {
	case f.Problem != nil:
		return f.hold(FileInvalid)
	case f.File == nil:
		return do(Nothing)
	case f.NamespaceMissing:
		return f.hold(NamespaceMissing)
	case f.Refusal != "":
		return f.hold(FileRefused)
	default:
		return do(Create)
	}
}

// present is for an object that is to stay.
func (f Facts) present() Decision {
	switch {
	case f.Unfit != nil:
		return f.hold(NameUnfit)
	case f.Problem != nil:
		return f.hold(FileInvalid)
	case f.File == nil:
		return f.fileAbsent()
	case claim.Equal(f.Live, f.File):
		if f.Finalizer && f.BaseCurrent && !f.BaseRemoved && !f.Touched && claim.Equal(f.Live, f.Base) {
			return do(Nothing)
		}
		return do(Record)
	case f.Base == nil:
		return f.whoChanged(do(Rebase), f.hold(BothExist))
	case f.liveChanged() && f.fileChanged():
		// Here a merge will look whether they touch the same fields.
		return f.whoChanged(do(Rebase), f.hold(BothChanged))
	case f.liveChanged():
		return do(Commit)
	case f.Touched && f.OwnWork != No:
		// The file may be the way there, pushed by this agent, of which Base
		// does not know; then this is the way back.
		return f.whoChanged(do(Rebase), do(Write))
	case f.Refusal != "":
		return f.hold(FileRefused)
	default:
		return do(Write)
	}
}

// fileAbsent is for an object that is to stay and has no file.
func (f Facts) fileAbsent() Decision {
	switch {
	case f.Base == nil:
		return do(Commit)
	case f.liveChanged(), f.Touched:
		return f.hold(ChangedAndRemoved)
	}
	switch f.Continues {
	case Unasked:
		return ask(AskContinues)
	case Yes:
		return do(Delete)
	default:
		return f.hold(FileMissing)
	}
}

// terminating is for an object whose delete has begun: by its user, by this
// agent because the file went, or with its namespace or API.
func (f Facts) terminating() Decision {
	switch {
	case !f.Finalizer:
		// Released by a person. When it is gone and the file is there, it is
		// created anew.
		return do(Nothing)
	case f.File == nil && f.Problem == nil:
		return f.terminatingFileAbsent()
	case f.BaseRemoved:
		return f.hold(FileCameBack)
	case f.Ending == NamespaceEnds:
		return f.hold(NamespaceDeleted)
	case f.Ending == APIEnds:
		return f.hold(APIDeleted)
	case f.Problem != nil:
		return f.hold(DeletedAndChanged)
	case claim.Equal(f.Live, f.File), f.Base != nil && !f.fileChanged():
		return do(RemoveFile)
	default:
		return f.whoChanged(do(RemoveFile), f.hold(DeletedAndChanged))
	}
}

func (f Facts) terminatingFileAbsent() Decision {
	switch {
	case f.Gone == Unasked:
		return ask(AskGone)
	case f.Gone == Yes:
		return do(Release)
	case f.Base != nil && !f.BaseRemoved:
		return do(RecordRemoved)
	default:
		return do(Wait)
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

func (f Facts) liveChanged() bool { return !claim.Equal(f.Live, f.Base) }
func (f Facts) fileChanged() bool { return !claim.Equal(f.File, f.Base) }
