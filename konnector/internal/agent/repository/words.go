package repository

import (
	"fmt"
	"strings"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// approvable is how a head of main is named in an approval.
func approvable(head store.Hash) string {
	if head == "" {
		return v1alpha1.ApproveNone
	}
	return string(head)
}

// wordsOfMain says why a head of main is not accepted.
func wordsOfMain(v guard.Verdict, accepted store.Hash) string {
	head := store.Hash(v.Commit)
	what := fmt.Sprintf("at %s, which does not contain it, or has more history since than is read", head.Short())
	if v.Reason == guard.MainMissing {
		what = "gone"
	}
	return fmt.Sprintf("Branch main was at commit %s and is now %s: the repository was restored from a backup, rewritten or replaced. Nothing is written in either direction. Push the missing commits to main; or, if it is right as it is now: kubectl gitbind approve --main %s. Nothing that it lacks is deleted for that.", accepted.Short(), what, approvable(head))
}

// wordsOfStatus says why the branch status is not trusted; "" if it is.
func wordsOfStatus(v guard.Verdict, known, now guard.Observed, accepted store.Hash) string {
	var what string
	switch v.Reason {
	case "":
		return ""
	case guard.StatusMissing:
		what = "is gone, or has no " + contract.ObservedPath
	case guard.StatusReplaced:
		what = fmt.Sprintf("began again: its epoch is %s, and was %s", now.Epoch, known.Epoch)
	default:
		what = fmt.Sprintf("went back: it is at sequence %d, and was at %d", now.Sequence, known.Sequence)
	}
	return fmt.Sprintf("Branch status %s: the repository was restored from a backup or replaced, or the control plane began again. No object is let go of on its word. It is over when the control plane continues the branch that was; if it is right as it is now: kubectl gitbind approve --main %s.", what, approvable(accepted))
}

const (
	wordsFile   = "Its file is gone from main, as one of many at once: nothing is deleted until a person has approved all of them (kubectl describe connection %s says how many, and how), or decides on this one: kubectl gitbind resolve, with --take delete to delete it, or --take keep to put its file back."
	wordsObject = "It is being deleted as one of many at once: its file stays on main until a person has approved all of them (kubectl describe connection %s says how many, and how), or decides on this one: kubectl gitbind resolve, with --take delete to delete its service, or --take release to keep it."
	wordsMoved  = "Its file was removed, and %s may be the same claim: under another name that is a new, empty service. Nothing is deleted until a person decides: kubectl gitbind resolve, with --take delete to delete this one (the other file stands for itself), or --take keep to put its file back."
)

// wordsOfRemoval says why a removal is held.
func wordsOfRemoval(v guard.Verdict, connection string, fileGone bool) string {
	switch {
	case v.Reason == contract.Moved:
		to := v.MovedTo
		if strings.HasSuffix(to, "/") {
			to = "one of the files that came to " + to
		}
		return fmt.Sprintf(wordsMoved, to)
	case v.IsHeld() && fileGone:
		return fmt.Sprintf(wordsFile, connection)
	case v.IsHeld():
		return fmt.Sprintf(wordsObject, connection)
	}
	return ""
}
