package decision

import "gitbind.dev/gitbridge/contract"

// Loss reports whether the answer says that a service goes, or is gone, which
// nobody removed from main: many of those at once say more about the control
// plane than about each.
func (f Facts) Loss() bool {
	return f.File != nil && !f.Held && !f.RemovalBegan() && !f.Recreate && f.IsMissing()
}

// IsMissing reports whether the service that the answer tells of is gone, or goes.
func (f Facts) IsMissing() bool {
	return f.MayBeMissing() && (f.Access == NotServed || f.Access == Granted)
}

// MayBeMissing is IsMissing, also where the object cannot be seen.
func (f Facts) MayBeMissing() bool {
	return f.wasApplied() && (f.Access != Granted || f.Live == nil || f.Live.Terminating)
}

// Unread is what counts in the place of an answer that cannot be read, as who else can push may
// write anything: there may have been a service, and no removal of its file is known. By that
// nothing is made and nothing deleted, and what there is decides on the next answer. Object is
// the name that a claim's object would have.
func Unread(object string) *contract.Status {
	return &contract.Status{Result: contract.Lost, Reason: contract.NotRemoved, Object: object}
}

func (f Facts) isUnread() bool {
	return WasLost(f.Present) && f.Present.Reason == contract.NotRemoved
}

// WasLost says that the present answer says so already.
func WasLost(present *contract.Status) bool {
	return present != nil && present.Result == contract.Lost
}
