package resolve

import (
	"slices"
	"strings"

	"gitbind.dev/konnector/internal/cli/usage"
)

// choices are all that there are, with what each does. Which of them a claim
// has, its hold says.
var choices = []struct{ name, does string }{
	{"cluster", "commit what the object says to main, over what the file says"},
	{"file", "make the object what the file says; what the object says now is kept on a branch conflicts/… first"},
	{"delete", "let the removal go on: this deletes the service"},
	{"release", "let the object go without the service, and create it again from the file"},
	{"keep", "put the file back on main as the object says: the removal is undone"},
}

// lost is what the choices do after a conflict was lost: cluster and file say the
// same by then, and the version that lost is kept on a branch.
var lost = map[string]string{
	"cluster": "bring back the version that lost, and commit it",
	"file":    "leave things as they are",
}

// does says what a choice does.
func (r report) does(choice string) string {
	if text := lost[choice]; text != "" && !r.Held {
		return text
	}
	for _, c := range choices {
		if c.name == choice {
			return c.does
		}
	}
	return ""
}

func names() []string {
	var out []string
	for _, c := range choices {
		out = append(out, c.name)
	}
	return out
}

// check refuses what is no choice at all.
func check(take string) error {
	if take == "" || slices.Contains(names(), take) {
		return nil
	}
	return usage.Errorf("--take %q: it is one of %s", take, strings.Join(names(), ", "))
}
