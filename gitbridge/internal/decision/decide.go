package decision

import (
	"fmt"

	"gitbind.dev/gitbridge/claim"
)

// Decide takes the next step.
func Decide(f Facts) Decision {
	switch {
	case f.Held:
		return answer(f.mirrored())
	case !f.IsClaim && f.File == nil:
		return answer(nil)
	case !f.IsClaim:
		return answer(f.invalid())
	case f.File != nil:
		return f.present()
	default:
		return f.absent()
	}
}

// present decides while the file is on main.
func (f Facts) present() Decision {
	switch {
	case f.Access == NotBound:
		return answer(f.refused(claim.Invalid, "", &claim.Problem{File: f.Path, Reason: fmt.Sprintf("the API %s is not bound: bind it with `kubectl gitbind bind`, or remove the file", f.Key.Binding)}))
	case f.Access == NotGranted:
		return answer(f.refused(claim.Held, fmt.Sprintf("the control plane has not granted %s to this cluster yet", f.Key.Binding), nil))
	case f.Access == NotServed:
		return answer(f.refused(claim.Failed, fmt.Sprintf("the control plane does not serve %s, or its bridge may not watch it: its operator must look at it", f.Key.Binding), nil))
	case f.Live != nil && f.Live.Terminating:
		return answer(f.terminating())
	case f.removalBegan() && f.Live == nil:
		// The service went as asked. Its tombstone comes first, so that the app
		// cluster can let go of the old claim.
		if !f.Certain {
			return Decision{Effect: Ask}
		}
		return Decision{Effect: Nothing, Answer: f.gone(), Again: true}
	case f.File.Problem != nil:
		return answer(f.invalid())
	case f.Live == nil && f.wasApplied():
		if !f.Certain {
			return Decision{Effect: Ask}
		}
		return answer(f.refused(claim.Lost, fmt.Sprintf("%s was applied once and is missing on the control plane. It is not made anew by itself, "+
			"because it would be empty: restore it there, or remove the file and add it again", f.Present.Object), nil))
	case f.Live == nil || f.Live.Applied != f.File.Applied:
		return Decision{Effect: Apply}
	default:
		return answer(f.Applied(f.Live, f.File.Note))
	}
}

// absent decides while main has no such file.
func (f Facts) absent() Decision {
	switch {
	case f.Live != nil && f.Live.Terminating:
		return answer(f.terminating())
	case f.Live != nil:
		return f.removed()
	case f.Present == nil && f.UID == "":
		return answer(nil)
	case f.Present == nil:
		// Created and removed before the bridge looked.
		return answer(f.gone())
	case f.Present.Result == claim.Gone:
		if f.UID == "" || f.UID == f.Present.UID {
			return answer(f.Present)
		}
		return answer(f.gone())
	case f.Access == Granted && !f.Certain:
		return Decision{Effect: Ask}
	case !f.wasApplied(), f.removalBegan():
		return answer(f.gone())
	case f.Access != Granted:
		return answer(f.heldRemoval(fmt.Sprintf("its file is gone, but this cluster has no right on %s any more: nothing was deleted", f.Key.Binding)))
	default:
		return f.removed()
	}
}

// removed decides about an object, or one that is missing, whose file is not on
// main.
func (f Facts) removed() Decision {
	switch {
	case !f.Removed && !f.removalBegan():
		return answer(f.heldRemoval("its file is not on main, but no commit that the bridge followed removed it: nothing was deleted. " +
			"Put the file back, and then remove it if the service shall go"))
	case f.Live == nil:
		return answer(f.gone())
	default:
		return Decision{Effect: Delete}
	}
}

// Unproven is the answer for a claim that was answered before main was followed
// from here on, and whose file main lacks. It stays so until the file is back.
func Unproven(path string, key claim.Key, head string, present *claim.Status) *claim.Status {
	f := Facts{Path: path, Key: key, IsClaim: true, Head: head, Present: present}
	return f.removed().Answer
}

// wasApplied says that there was an object, and that it is not known to have
// gone as it should.
func (f Facts) wasApplied() bool {
	return f.Present != nil && f.Present.Object != "" && f.Present.Result != claim.Gone
}

// removalBegan says that a removal was accepted, and a delete begun.
func (f Facts) removalBegan() bool {
	return f.Present != nil && f.Present.Result == claim.Deleting && f.Present.Answers.Blob == ""
}
