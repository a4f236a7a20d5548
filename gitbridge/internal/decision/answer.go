package decision

import (
	"cmp"
	"fmt"
	"strings"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
)

// Applied is the answer when the control plane has what the file says.
func (f Facts) Applied(live *Live, note string) *contract.Status {
	s := f.status(contract.Applied)
	s.Message, s.Object, s.Status = note, live.Name, live.Status
	if f.File == nil {
		return s
	}
	s.Effective = f.File.Effective
	if f.File.Contest != "" {
		s.Reason, s.Message = contract.Contested, f.File.Contest
	}
	return s
}

// Deleting is the answer when the removal was passed on; message says what is
// in its way.
func (f Facts) Deleting(live *Live, message string) *contract.Status {
	s := f.status(contract.Deleting)
	s.Message, s.Object, s.Status = message, live.Name, live.Status
	return s
}

// Refused is the answer when the file could not be applied: it leaves what is there as it is,
// and shows it.
func (f Facts) Refused(result contract.Result, message string, problem *contract.Problem) *contract.Status {
	s := f.status(result)
	s.Message, s.Problem = message, problem
	if problem != nil && message == "" {
		s.Message = problem.Reason
	}
	f.keepObject(s)
	return s
}

func (f Facts) invalid() *contract.Status { return f.Refused(contract.Invalid, "", f.File.Problem) }

// unbound does not advise to remove the file of a service that is there: that service would
// stay, and nobody would use it.
func (f Facts) unbound() *contract.Status {
	reason := fmt.Sprintf("the API %s is not bound: bind it with `kubectl gitbind bind`", f.Key.Binding)
	if f.Live == nil && !f.wasApplied() {
		reason += ", or remove the file"
	}
	return f.Refused(contract.Invalid, "", &contract.Problem{File: f.Path, Reason: reason})
}

func (f Facts) terminating() *contract.Status {
	if f.File == nil {
		return f.Deleting(f.Live, "")
	}
	s := f.Deleting(f.Live, "it is being deleted on the control plane, though its file is on main")
	if f.RemovalBegan() {
		s.Answers = f.Present.Answers
		s.Message = "a delete that has begun cannot be undone, though its file is back on main. " + f.wordsOfEmpty()
	}
	return s
}

// reverted is the answer when the service went as its removal asked, and the file came
// back before that.
func (f Facts) reverted() *contract.Status {
	s := f.Refused(contract.Lost, "its file came back while the service was being deleted, which cannot be undone: the service is gone, with its data. "+f.wordsOfEmpty(), nil)
	s.Reason = contract.Reverted
	return s
}

func (f Facts) wordsOfEmpty() string {
	return "Nothing is ordered in its place by itself, because it would be empty. Remove the file; or, for an empty one: kubectl gitbind approve --recreate-empty " + f.Path
}

func (f Facts) heldRemoval(r guard.Verdict) *contract.Status {
	s := f.status(contract.Held)
	s.Reason, s.Message = r.Reason, r.Message
	if r.Commit != "" {
		s.Answers = contract.Answers{Commit: r.Commit}
	}
	f.keepObject(s)
	return s
}

// gone is the tombstone.
func (f Facts) gone() *contract.Status {
	s := f.status(contract.Gone)
	s.Since = f.Now
	switch {
	case f.RemovalBegan():
		s.Answers = f.Present.Answers
	case f.isTombstone():
		s.Answers = contract.Answers{Commit: f.Head}
	}
	return s
}

// asBefore is the present answer, as a copy of which parts may be set.
func (f Facts) asBefore() *contract.Status {
	if f.Present == nil {
		return nil
	}
	s := *f.Present
	return &s
}

// mirrored is the present answer with the present state of the object.
func (f Facts) mirrored() *contract.Status {
	s := f.asBefore()
	if s != nil && f.Live != nil && !f.Live.Foreign && !f.isTombstone() {
		s.Status = f.Live.Status
	}
	return s
}

// foreign says whose the place is. Nothing of what is there is shown.
func (f Facts) foreign() *contract.Status {
	name := f.Live.Name
	namespace, object, _ := strings.Cut(name, "/")
	f.Live = nil
	s := f.Refused(contract.Held, fmt.Sprintf("the control plane has an object %[1]s that is not this claim's: it stays as it is. Give the claim another name; "+
		"or have a platform operator hand the object over: kubectl annotate %[2]s -n %[3]s %[4]s gitbind.dev/adopt=%[5]s", name, f.Key.Binding, namespace, object, f.Cluster), nil)
	s.Reason = contract.Foreign
	return s
}

func (f Facts) isHeldForeign() bool {
	return f.Present != nil && f.Present.Result == contract.Held && f.Present.Reason == contract.Foreign
}

// unseen says that the kind cannot be looked at.
func (f Facts) unseen() *contract.Status {
	why := cmp.Or(f.Why, fmt.Sprintf("the control plane does not serve %s, or its bridge may not watch it", f.Key.Binding))
	return f.Refused(contract.Failed, why+"; the control plane's operator must look at it", nil)
}

func (f Facts) unpermitted() *contract.Status {
	s := f.Refused(contract.Held, fmt.Sprintf("this cluster may not bind %s any more: nothing new is ordered, and what was ordered before stays. "+
		"Its owner binds it again, or a platform operator grants it", f.Key.Binding), nil)
	s.Reason = contract.NotPermitted
	return s
}

func (f Facts) keepObject(s *contract.Status) {
	switch {
	case f.Live != nil:
		s.Object, s.Status = f.Live.Name, f.Live.Status
	case f.wasApplied():
		s.Object = f.Present.Object
		if s.Result != contract.Lost {
			s.Status = f.Present.Status
		}
	}
}

func (f Facts) status(result contract.Result) *contract.Status {
	s := &contract.Status{Result: result, Answers: f.answers(), UID: f.UID}
	if f.IsClaim {
		s.Metadata = contract.StatusMeta{Name: f.Key.Name, Namespace: f.Key.Namespace}
	}
	if s.UID == "" && f.Present != nil && !f.isAnother(result) {
		s.UID = f.Present.UID
	}
	return s
}

// ClaimUID is the UID that an answer says of a claim which is applied.
func (f Facts) ClaimUID() string { return f.status(contract.Applied).UID }

// isAnother says of an answer that it is about another claim than the present one: what
// comes after a tombstone, or in the place of what went.
func (f Facts) isAnother(result contract.Result) bool {
	return f.Present.Result == contract.Gone && result != contract.Gone ||
		f.Present.Reason == contract.Reverted && result == contract.Applied
}

// answers names the version that is answered.
func (f Facts) answers() contract.Answers {
	blob := ""
	if f.File != nil {
		blob = f.File.Blob
	}
	return f.Present.Answering(blob, f.Head)
}
