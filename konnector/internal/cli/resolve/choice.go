package resolve

import (
	"gitbind.dev/konnector/internal/choice"
)

// does says what each choice does.
var does = map[choice.Choice]string{
	choice.Cluster: "commit what the object says to main, over what the file says",
	choice.File:    "make the object what the file says; what the object says now is kept on a branch conflicts/… first",
	choice.Delete:  "let the removal go on: this deletes the service",
	choice.Release: "let the object go without the service, and create it again from the file",
	choice.Keep:    "put the file back on main as the object says: the removal is undone",
}

// lost is what the choices do after a conflict was lost: cluster and file say the
// same by then, and the version that lost is kept on a branch.
var lost = map[choice.Choice]string{
	choice.Cluster: "bring back the version that lost, and commit it",
	choice.File:    "leave things as they are",
}

// does says what a choice does.
func (r report) does(c choice.Choice) string {
	if text := lost[c]; text != "" && !r.Held {
		return text
	}
	return does[c]
}

func names(choices []choice.Choice) []string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = string(c)
	}
	return out
}
