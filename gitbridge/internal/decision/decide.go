package decision

import (
	"cmp"
	"fmt"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
)

// Decide takes the next step.
func Decide(f Facts) Decision {
	switch {
	case f.isUnread() && (f.Held || f.File == nil && f.Access == NotWatched):
		// The answer would be the one of before.
		return Decision{Effect: Leave}
	case f.Held:
		return answer(f.mirrored())
	case !f.IsClaim && f.File == nil:
		return answer(nil)
	case !f.IsClaim:
		return answer(f.invalid())
	case f.Live != nil && f.Live.Foreign && f.File == nil:
		// It stays, and nothing of it is the claim's to wait for.
		f.Live = nil
		return f.absent()
	case f.File != nil:
		return f.present()
	default:
		return f.absent()
	}
}

// present decides while the file is on main. What says that nothing may be touched comes
// first: no right on the API, somebody else's object, a delete that has begun. Then come
// what is wrong in the file; whether the object was lost, which must be said before an empty
// one is made in its place; what keeps a good file from being applied; and at last what the
// object needs. A row that rests on the object's absence asks for certainty first.
func (f Facts) present() Decision {
	switch {
	case f.Access == NotBound:
		return answer(f.unbound())
	case f.Access == NotGranted:
		return answer(f.Refused(contract.Held, fmt.Sprintf("the control plane has not granted %s to this cluster yet", f.Key.Binding), nil))
	case f.Access == NotServed, f.Access == NotWatched:
		return answer(f.unseen())
	case f.Live != nil && f.Live.Foreign && !f.Live.Adopted:
		return answer(f.foreign())
	case f.Live != nil && f.Live.Terminating:
		return answer(f.terminating())
	case f.RemovalBegan() && f.Live == nil:
		// The service went as asked, though its file is back.
		switch {
		case !f.Certain:
			return Decision{Effect: Ask}
		case !f.Recreate:
			return answer(f.reverted())
		}
		// Its tombstone comes first, so that the app cluster can let go of the old claim.
		return Decision{Effect: Nothing, Answer: f.gone(), Again: true}
	case f.File.Problem != nil:
		return answer(f.invalid())
	case f.Live == nil && f.wasApplied() && !f.Certain:
		return Decision{Effect: Ask}
	case f.Live == nil && f.wasApplied() && !f.Recreate && f.Present.Reason == contract.Reverted:
		return answer(f.reverted())
	case f.Live == nil && f.wasApplied() && !f.Recreate:
		return answer(f.Refused(contract.Lost, fmt.Sprintf("%s was applied once and is missing on the control plane. It is not made again by itself, "+
			"because it would be empty. Restore it there; or, for an empty one: kubectl gitbind approve --recreate-empty %s", f.Present.Object, f.Path), nil))
	case f.File.Refusal != nil:
		return answer(f.Refused(f.File.Refusal.Result, f.File.Refusal.Message, nil))
	case f.Live == nil && f.isHeldForeign() && !f.Certain:
		return Decision{Effect: Ask}
	case f.Live == nil && !f.wasApplied() && f.Unpermitted:
		return answer(f.unpermitted())
	case f.Live == nil || f.Live.Applied != f.File.Applied:
		return Decision{Effect: Apply}
	case f.Live.Drifted:
		return Decision{Effect: Correct}
	default:
		return answer(f.Applied(f.Live, f.File.Note))
	}
}

// absent decides while main has no such file: as long as there is an object by its removal,
// after that by what the last answer says of the claim.
func (f Facts) absent() Decision {
	switch {
	case f.Live != nil && f.Live.Terminating:
		return answer(f.terminating())
	case f.Live != nil:
		return f.removed()
	case f.Access == NotWatched && f.UID != "" && (f.Present == nil || f.isTombstone() && f.UID != f.Present.UID):
		// It came and went, and what there is of it is not known.
		return answer(f.unseen())
	case f.Access == NotWatched:
		return answer(f.asBefore())
	case f.isTombstone() && (f.UID == "" || f.UID == f.Present.UID):
		return answer(f.Present)
	case f.Access == Granted && !f.Certain:
		// Also what was made a moment ago, and not answered, and what watching does not show yet.
		return Decision{Effect: Ask}
	case f.Present == nil && f.UID == "":
		return answer(nil)
	case f.Present == nil, f.isTombstone():
		// Created and removed before the bridge looked.
		return answer(f.gone())
	case f.RemovalBegan() && f.Access != Granted && f.Access != NotBound:
		// Nobody looked whether it is gone. What was unbound nobody looks at any more: there
		// the delete goes on, and the app cluster lets go of the claim.
		return answer(f.asBefore())
	case !f.wasApplied(), f.RemovalBegan():
		return answer(f.gone())
	case f.Access != Granted && f.Removal != nil && f.Removal.IsHeld():
		// The next process knows by this answer what a person is to decide.
		return answer(f.heldRemoval(*f.Removal))
	case f.isLeft():
		return Decision{Effect: Hold}
	case f.Access == NotServed:
		why := cmp.Or(f.Why, "the control plane does not serve "+f.Key.Binding)
		s := f.heldRemoval(guard.Verdict{Message: fmt.Sprintf("its file is gone, but %s: nothing was deleted so far, and the control plane's operator must look at it", why)})
		// The removal is not answered yet: the next process judges it, too.
		s.Answers = f.Present.Answers
		return answer(s)
	case f.Access != Granted:
		s := f.heldRemoval(guard.Verdict{Message: fmt.Sprintf("its file is gone, but this cluster has no right on %s any more: nothing was deleted", f.Key.Binding)})
		if f.Access == NotGranted {
			s.Answers = f.Present.Answers // It may be granted again in a moment.
		}
		return answer(s)
	default:
		return f.removed()
	}
}

// isLeft reports whether a removal leaves its service, because the API is not bound: then it does
// not go by itself either when the API is bound again. The removal of a claim that was deleted in
// the app cluster waits for that, as the object there does; and so does one that a person approved.
func (f Facts) isLeft() bool {
	return f.Access == NotBound && f.Removal != nil && !f.Removal.ByKonnector && !f.Removal.Approved
}

// removed decides about an object, or one that is missing, whose file is not on
// main.
func (f Facts) removed() Decision {
	switch {
	case f.Removal == nil && !f.RemovalBegan():
		return answer(f.heldRemoval(guard.Verdict{Reason: contract.NotRemoved, Message: "its file is not on main, but no commit that the bridge followed removed it: " +
			"nothing was deleted. Put the file back, and then remove it if the service shall go"}))
	case f.Removal != nil && f.Removal.Reason == contract.NotRemoved:
		return answer(f.heldRemoval(*f.Removal))
	case f.Live == nil:
		return answer(f.gone())
	case f.Removal != nil && f.Removal.IsHeld():
		return answer(f.heldRemoval(*f.Removal))
	default:
		return Decision{Effect: Delete}
	}
}

// Held is the answer for a claim whose removal is held, as long as nothing else
// is known of it.
func Held(path string, key contract.Key, r guard.Verdict, present *contract.Status) *contract.Status {
	f := Facts{Path: path, Key: key, IsClaim: true, Present: present}
	return f.heldRemoval(r)
}

// wasApplied says that there was an object, and that it is not known to have
// gone as it should.
func (f Facts) wasApplied() bool {
	return f.Present != nil && f.Present.Object != "" && f.Present.Result != contract.Gone
}

// isTombstone says that the present answer is one.
func (f Facts) isTombstone() bool {
	return f.Present != nil && f.Present.Result == contract.Gone
}

// RemovalBegan says that a removal was accepted, and a delete begun.
func (f Facts) RemovalBegan() bool {
	return f.Present != nil && f.Present.Result == contract.Deleting && f.Present.Answers.Blob == ""
}
