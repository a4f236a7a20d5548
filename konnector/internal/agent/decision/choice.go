package decision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"gitbind.dev/gitbridge/contract"
)

// Choice is what a person can decide about a claim.
type Choice string

// The choices.
const (
	// TakeCluster: the object's version is committed.
	TakeCluster Choice = "cluster"
	// TakeFile: the file's version is written to the object.
	TakeFile Choice = "file"
	// TakeDelete: the removal goes on.
	TakeDelete Choice = "delete"
	// TakeRelease: the object goes, the file stays, and makes a new one.
	TakeRelease Choice = "release"
	// TakeKeep: the file comes back from the object.
	TakeKeep Choice = "keep"
)

// choices are what can be decided, for each reason.
func (f Facts) choices(why Reason) []Choice {
	switch why {
	case ChangedAndRemoved, FileMissing, Moved:
		return []Choice{TakeKeep, TakeDelete}
	case DeletedAndChanged, FileCameBack, NamespaceDeleted, APIDeleted:
		return []Choice{TakeDelete, TakeRelease}
	case FlipFlop:
		return []Choice{TakeCluster, TakeFile}
	case ManyRemovals, GitWrites, ClusterWrites:
		return f.choicesBySide(why)
	}
	return nil
}

// choicesBySide are for reasons that say nothing of what has happened.
func (f Facts) choicesBySide(why Reason) []Choice {
	switch {
	case f.Terminating:
		return []Choice{TakeDelete, TakeRelease}
	case why == GitWrites:
		// A new object: only Git can say that it is wanted.
		return nil
	case f.File == nil:
		return []Choice{TakeKeep, TakeDelete}
	default:
		return []Choice{TakeCluster, TakeFile}
	}
}

// hold says what happened and what a person can do about it, or does what a
// person has decided.
func (f Facts) hold(why Reason) Decision {
	d := Decision{Action: Hold, Reason: why, Message: f.message(why), Choices: f.choices(why)}
	if choice, ok := f.chosen(&d); ok {
		return f.obey(choice)
	}
	return d
}

// lost shows a conflict that the object lost, until a person has looked at it.
func (f Facts) lost() Decision {
	d := Decision{Action: Nothing, Reason: f.Lost.Reason, Message: f.lostMessage(), Choices: []Choice{TakeCluster, TakeFile}}
	if f.Lost.Reason == GitWrites {
		d.Choices = []Choice{TakeFile}
	}
	switch choice, ok := f.chosen(&d); {
	case !ok:
		return d
	case choice == TakeFile:
		return Decision{Action: Record, Chosen: choice}
	case f.LostRefusal != "":
		return d
	default:
		return Decision{Action: TakeBack, Chosen: choice}
	}
}

// chosen is the decision that a person took on just this. One on another state
// of things changes nothing.
func (f Facts) chosen(d *Decision) (Choice, bool) {
	if len(d.Choices) == 0 {
		return "", false
	}
	d.Token = f.Token(d.Reason)
	for _, choice := range d.Choices {
		if f.Resolve == string(choice)+"."+d.Token {
			return choice, true
		}
	}
	if f.Resolve != "" {
		d.Message += fmt.Sprintf(" Nothing was done for the decision %q: it is not one on this state of things.", f.Resolve)
	}
	return "", false
}

// obey does what a person has decided.
func (f Facts) obey(choice Choice) Decision {
	d := Decision{Chosen: choice}
	switch {
	case choice == TakeDelete && f.Terminating:
		d.Action = RemoveFile
	case choice == TakeDelete:
		d.Action = Delete
	case choice == TakeRelease:
		d.Action = Release
	case choice == TakeFile && f.Refusal != "":
		return f.hold(FileRefused)
	case choice == TakeFile && f.Base != nil && !f.liveChanged():
		d.Action = Write
	case choice == TakeFile:
		d.Action, d.Reason = GiveWay, BothChanged
	default:
		d.Action = Commit
	}
	return d
}

// Token names what a person decides on: reason, object, file and base.
func (f Facts) Token(why Reason) string {
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
	}{why, f.UID, f.Terminating, f.Live, f.Base, f.FileBlob, branch})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:5])
}
