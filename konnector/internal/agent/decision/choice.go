package decision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/choice"
)

// choices are what can be decided, for each reason.
func (f Facts) choices(why Reason) []choice.Choice {
	if f.NamespaceMissing {
		// A person's decision could not be written either.
		return nil
	}
	switch why {
	case ChangedAndRemoved, FileMissing, Moved:
		return []choice.Choice{choice.Keep, choice.Delete}
	case DeletedAndChanged, FileCameBack, NamespaceDeleted, APIDeleted, OwnerDeleted:
		return []choice.Choice{choice.Delete, choice.Release}
	case Rejected:
		return f.rejectedChoices()
	case ManyWrites:
		if f.File == nil {
			return []choice.Choice{choice.Cluster}
		}
		if f.Writer == v1alpha1.WriterGit {
			return []choice.Choice{choice.File}
		}
		return []choice.Choice{choice.Cluster, choice.File}
	case FlipFlop, CommitLost:
		return []choice.Choice{choice.Cluster, choice.File}
	case ManyRemovals, HistoryTooLong, GitWrites, ClusterWrites:
		return f.choicesBySide(why)
	}
	return nil
}

// choicesBySide are for reasons that say nothing of what has happened.
func (f Facts) choicesBySide(why Reason) []choice.Choice {
	switch {
	case f.Terminating:
		return []choice.Choice{choice.Delete, choice.Release}
	case why == GitWrites:
		// A new object: only Git can say that it is wanted.
		return nil
	case f.File == nil:
		return []choice.Choice{choice.Keep, choice.Delete}
	default:
		return []choice.Choice{choice.Cluster, choice.File}
	}
}

// hold says what happened and what a person can do about it, or does what a
// person has decided.
func (f Facts) hold(why Reason) Decision {
	d := Decision{Action: Hold, Reason: why, Message: f.message(why), Choices: f.choices(why)}
	if taken, ok := f.chosen(&d); ok {
		return f.obey(taken)
	}
	return d
}

// lost shows a conflict that the object lost, until a person has looked at it.
func (f Facts) lost() Decision {
	d := Decision{Action: Nothing, Reason: f.Lost.Reason, Message: f.lostMessage(), Choices: []choice.Choice{choice.Cluster, choice.File}}
	if f.Lost.Reason == GitWrites {
		d.Choices = []choice.Choice{choice.File}
	}
	switch taken, ok := f.chosen(&d); {
	case !ok:
		return d
	case taken == choice.File:
		return Decision{Action: Record, Chosen: taken}
	case f.LostRefusal != "":
		return d
	default:
		return Decision{Action: TakeBack, Chosen: taken}
	}
}

// chosen is the decision that a person took on just this. One on another state
// of things changes nothing.
func (f Facts) chosen(d *Decision) (choice.Choice, bool) {
	if len(d.Choices) == 0 {
		return "", false
	}
	d.Token = f.Token(d.Reason)
	// What was decided here before may have been proposed, and rejected: what a person decides
	// then is about the same state of things.
	for _, token := range []string{d.Token, f.Token(Rejected)} {
		if taken := choice.Taken(f.Resolve, token, d.Choices); taken != "" {
			return taken, true
		}
	}
	if f.Resolve != "" {
		d.Message += fmt.Sprintf(" Nothing was done for the decision %q: it is not one on this state of things.", f.Resolve)
	}
	return "", false
}

// obey does what a person has decided.
func (f Facts) obey(taken choice.Choice) Decision {
	d := Decision{Chosen: taken}
	switch {
	case taken == choice.Delete && f.Terminating:
		d.Action = RemoveFile
	case taken == choice.Delete:
		d.Action = Delete
	case taken == choice.Release:
		d.Action = Release
	case taken == choice.File && f.Refusal != "":
		return f.hold(FileRefused)
	case taken == choice.File && f.Base != nil && !f.liveChanged() && f.Continues != No:
		d.Action = Write
	case taken == choice.File:
		d.Action, d.Reason = GiveWay, BothChanged
	default:
		d.Action = Commit
	}
	return d
}

// Token names what a person decides on: reason, object, file and base.
func (f Facts) Token(why Reason) string {
	live := f.Live
	if why == ManyWrites {
		// Further writes make no other state of things.
		live = nil
	}
	branch := ""
	if f.Lost != nil {
		branch = f.Lost.Branch
	}
	// Maps are written in the order of their keys.
	b, err := json.Marshal(struct {
		Reason      Reason
		UID         string
		Terminating bool
		Live, Base  *contract.Claim
		File        string
		Branch      string
	}{why, f.UID, f.Terminating, live, f.Base, f.FileBlob, branch})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:5])
}
