package decision

import (
	"fmt"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
)

// This file has the words alone. The verdict is the guard's (Removals.JudgePushes, which
// session/removals.go asks), and what follows from it is Facts.removed's to say.

// WordsOfUnknown says why the removal of a file is held of which it cannot be asked how it
// went; history says what is in the way.
func WordsOfUnknown(v guard.Verdict, history string) string {
	return fmt.Sprintf("its file is not on main, and it is not known whether a commit removed it, as the history since its last answer is more than is read (%s): "+
		"nothing was deleted. To keep the service, put its file back. To let it go: kubectl gitbind approve --removals %s", history, v.Commit)
}

// WordsOfLeft says why the removal of a file is held that was removed while the cluster had no
// right on the API.
func WordsOfLeft(v guard.Verdict, binding string) string {
	return fmt.Sprintf("its file was removed while this cluster had no right on %s: nothing was deleted, and nothing is when the API is bound again. "+
		"To keep the service, put its file back. To let it go, once the API is bound: kubectl gitbind approve --removals %s", binding, v.Commit)
}

// WordsOfRemoval says why a removal is held, and what can be done; "" if it is not.
func WordsOfRemoval(v guard.Verdict) string {
	const wayOn = "so nothing was deleted. To keep the service, put its file back. To let it go: kubectl gitbind approve --removals %s"
	switch v.Reason {
	case contract.NotRemoved:
		return fmt.Sprintf("its file is not on main, but no commit that the bridge followed removed it: "+
			"nothing was deleted. To keep the service, put its file back. To let it go: kubectl gitbind approve --removals %s", v.Commit)
	case contract.ManyRemovals:
		others := "after others"
		if v.Together > 1 {
			others = fmt.Sprintf("together with %d others", v.Together-1)
		}
		return fmt.Sprintf("its file was removed %s: more than may go at once unless a person approves, "+wayOn, others, v.Commit)
	case contract.Moved:
		return fmt.Sprintf("its file was removed, and %s may be the same claim: under another name that is a new, empty service, "+wayOn, v.MovedTo, v.Commit)
	}
	return ""
}
