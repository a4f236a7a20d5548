// Package request decides what is to be done about one bound API: between its
// APIServiceBinding in the app cluster and its file request.yaml on main, and on
// the way to unbind it. It has no client and no Git.
package request

import "gitbind.dev/gitbridge/contract"

// Facts are what is known of one bound API.
type Facts struct {
	// Live is what the APIServiceBinding asks for; nil when there is none.
	Live *contract.Request
	// Finalizer says that it has ours, Terminating that its delete has begun.
	Finalizer, Terminating bool

	// File is request.yaml on main; nil when there is none, or it has a Problem.
	File *contract.Request
	// Problem is why the file cannot be read.
	Problem error
	// Base is what both last agreed on, under this Connection; nil for none.
	Base *contract.Request
	// BaseRemoved says that since Base the file went, and the binding is to go
	// for it. Where it goes, that stays true without a Base, too.
	BaseRemoved bool
	// Pushing says that a push of the file was begun, of which it is not known how it ended.
	// Where the file is what was pushed, it is Base.
	Pushing bool
	// Continues says that main descends from the commit of Base.
	Continues bool

	// Disconnected says that there is no Connection any more.
	Disconnected bool
	// Replaced says that main does not continue what was accepted.
	Replaced bool

	// Claims counts the claims that there are: objects in this cluster, and files
	// on main. Objects is how many are objects.
	Claims, Objects int
	// Kept counts the objects that have our finalizer.
	Kept int
	// Unsaved counts the objects that say what main does not.
	Unsaved int
	// ByPerson says that a person deleted this very binding.
	ByPerson bool
	// Unseen says that the objects may not be counted any more.
	Unseen bool
	// Answered says that the control plane has taken note of what the file as it is
	// says of its end, Held that it keeps the API though the file is gone.
	Answered, Held bool
}

// Action is what to do.
type Action string

// The actions.
const (
	// Nothing: both agree, or there is nothing that may be done.
	Nothing Action = "Nothing"
	// Adopt puts the finalizer on the binding: before anything else is done.
	Adopt Action = "Adopt"
	// Create makes the binding that the file asks for.
	Create Action = "Create"
	// Commit puts what the binding asks for into the file.
	Commit Action = "Commit"
	// Write puts what the file asks for into the binding.
	Write Action = "Write"
	// Record keeps with the binding what both agree on.
	Record Action = "Record"
	// RecordRemoved keeps with it that the file is gone.
	RecordRemoved Action = "RecordRemoved"
	// Delete deletes the binding, as its file went.
	Delete Action = "Delete"

	// These are for a binding whose delete has begun.

	// KeepOn goes on as before: there are claims.
	KeepOn Action = "KeepOn"
	// DeleteClaims deletes the objects, and waits until their services are gone.
	DeleteClaims Action = "DeleteClaims"
	// RemoveFiles takes claim files off main that have no object here.
	RemoveFiles Action = "RemoveFiles"
	// AwaitAnswer waits until the control plane knows what is to become of the
	// claims.
	AwaitAnswer Action = "AwaitAnswer"
	// AwaitClaims waits until main says what the objects say.
	AwaitClaims Action = "AwaitClaims"
	// LetGo takes our finalizer off the objects; services and files stay.
	LetGo Action = "LetGo"
	// RemoveRequest takes the file off main.
	RemoveRequest Action = "RemoveRequest"
	// TakeBack removes what was made in the cluster for the binding, and lets go
	// of it.
	TakeBack Action = "TakeBack"
	// Release lets go of the binding only: it is made again, as its file came back.
	Release Action = "Release"
	// Hold waits for a person.
	Hold Action = "Hold"
)

// For decides. The same facts give the same action; each action changes a fact.
func For(f Facts) Action {
	switch {
	case f.Live == nil:
		return f.absent()
	case f.Terminating && !f.Finalizer:
		return Nothing
	case f.Terminating && f.Disconnected:
		return f.disconnected()
	case f.Disconnected:
		return Nothing
	case f.Replaced:
		return Hold
	case !f.Finalizer:
		return Adopt
	case f.Terminating:
		return f.terminating()
	default:
		return f.present()
	}
}

func (f Facts) absent() Action {
	if f.File != nil && !f.Replaced && !f.Disconnected {
		return Create
	}
	return Nothing
}

// present is for a binding that is to be.
func (f Facts) present() Action {
	switch {
	case f.Problem != nil:
		// The file's author is told by the control plane. It is not overwritten.
		return Nothing
	case f.File == nil && f.Base != nil && f.BaseRemoved:
		// The process ended between noting it and deleting.
		return Delete
	case f.File == nil && f.Base != nil && f.Continues:
		return RecordRemoved
	case f.File == nil:
		return Commit
	default:
		return f.inStep()
	}
}

// inStep is for a binding and a file. Where both changed, the file wins: it has
// a history.
func (f Facts) inStep() Action {
	switch {
	case *f.Live == *f.File && f.Base != nil && *f.Base == *f.File && !f.BaseRemoved && !f.Pushing:
		return Nothing
	case *f.Live == *f.File:
		return Record
	case f.Base != nil && *f.Base == *f.File:
		return Commit
	default:
		return Write
	}
}

// terminating is for a binding that goes: because a person deleted it, or its
// file.
func (f Facts) terminating() Action {
	there := f.File != nil || f.Problem != nil
	switch {
	case !there && f.Base != nil && !f.BaseRemoved && f.Continues:
		return RecordRemoved
	case f.File != nil && f.BaseRemoved:
		return Release
	}
	if f.File != nil {
		switch a := f.inStep(); {
		case a == Write && f.File.DeletionPolicy == contract.Delete && f.Live.DeletionPolicy != contract.Delete:
			// The person who deleted the binding was told that the services stay. A push does
			// not approve their removal.
			return Commit
		case a == Commit, a == Write:
			return a
		}
	}
	switch {
	case f.Unseen:
		return Hold
	case f.Live.DeletionPolicy == contract.Orphan:
		return f.orphan(there)
	}
	return f.whenThereAreNone(there)
}

// orphan lets go of the claims. The control plane has to know before the file
// goes: what it said last counts there. The file goes before they are let go of:
// as long as Git cannot be written to, what people edit would be lost.
func (f Facts) orphan(there bool) Action {
	switch {
	case f.Problem != nil, !there && f.Held && f.Claims > 0:
		return Commit
	case there && !f.Answered && f.Claims > 0:
		return AwaitAnswer
	case f.Kept > 0 && f.Unsaved > 0:
		return AwaitClaims
	case there:
		return RemoveRequest
	case f.Kept > 0:
		return LetGo
	default:
		return TakeBack
	}
}

func (f Facts) whenThereAreNone(there bool) Action {
	switch {
	case f.Claims > 0 && f.Live.DeletionPolicy != contract.Delete:
		return KeepOn
	case f.Objects > 0:
		return DeleteClaims
	case f.Claims > 0 && !f.ByPerson:
		// There is no object whose delete the guard would be asked about.
		return KeepOn
	case f.Claims > 0:
		return RemoveFiles
	case there:
		return RemoveRequest
	default:
		return TakeBack
	}
}

// disconnected is for a binding that goes after its Connection: Git is not asked.
func (f Facts) disconnected() Action {
	switch {
	case f.Unseen:
		return Hold
	case f.Objects == 0:
		return TakeBack
	case f.Live.DeletionPolicy != contract.Orphan:
		return Hold
	case f.Kept > 0:
		return LetGo
	default:
		return TakeBack
	}
}
