package review

import (
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/terminal"
)

func TestAClaimThatWouldWaitIsShownWithWhatItSays(t *testing.T) {
	var out strings.Builder
	in := Input{Call: command.Call{Terminal: terminal.Open(strings.NewReader(""), &out)}}
	if err := in.showFile(restapi.ChangedFile{
		Path: "x.yaml", Action: restapi.ActionCreate, Binding: "databases.example.com", Kind: "Database", Namespace: "team-a", Name: "orders",
		Fields: []restapi.FieldChange{{Field: "spec.plan", After: "small"}}, Waits: "no room\x1b[2J", Untried: "not\x1b[2J yet",
		Effective: []restapi.FieldChange{{Field: "spec.expose", After: "Internal\x1b[2J"}}, Unchanged: []string{"spec.plan\x1b[2J"},
	}); err != nil {
		t.Fatal(err)
	}
	const want = "\norders Database team-a/orders (databases.example.com)\n  would wait: no room"
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "spec.plan") || !strings.Contains(got, "not tried on the control plane: not") || !strings.Contains(got, "file says:\n  spec.expose  Internal") || !strings.Contains(got, "spec.plan") || !strings.Contains(got, "stays as it is") || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
