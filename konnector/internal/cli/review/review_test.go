package review

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

func TestAClaimThatWouldWaitIsShownWithWhatItSays(t *testing.T) {
	var out strings.Builder
	in := Input{Call: command.Call{Terminal: terminal.Open(strings.NewReader(""), &out)}}
	if err := in.showFile(restapi.ChangedFile{
		Path: "x.yaml", Action: restapi.ActionCreate, Binding: "databases.example.com", Kind: "Database", Namespace: "team-a", Name: "orders",
		Fields: []restapi.FieldChange{{Field: "spec.plan", After: "small"}}, Unbinding: "all go\x1b[2J", Waits: "no room\x1b[2J", Untried: "not\x1b[2J yet",
		Effective: []restapi.FieldChange{{Field: "spec.expose", After: "Internal\x1b[2J"}}, Unchanged: []string{"spec.plan\x1b[2J"},
	}); err != nil {
		t.Fatal(err)
	}
	const want = "\norders Database team-a/orders (databases.example.com)\n  all go [2J\n  would wait: no room"
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "spec.plan") || !strings.Contains(got, "not tried on the control plane: not") || !strings.Contains(got, "file says:\n  spec.expose  Internal") || !strings.Contains(got, "spec.plan") || !strings.Contains(got, "stays as it is") || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}

func TestAListSaysThatThereAreMore(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		mux := http.NewServeMux()
		answer := func(path, body string) {
			mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
				if more {
					w.Header().Set(restapi.MoreHeader, "true")
				}
				fmt.Fprint(w, body)
			})
		}
		answer("/v1/info", `{"issuer":"https://dex.example.com","clientID":"gitbind-cli"}`)
		answer("/v1/clusters", `[{"id":"abc"}]`)
		answer("/v1/clusters/abc/changes", `[{"branch":"changes/team-a/orders"}]`)
		backend := httptest.NewServer(mux)
		t.Cleanup(backend.Close)
		var out, notes strings.Builder
		in := Input{BackendURL: backend.URL, ClusterRef: "abc", Format: output.Name, Call: command.Call{
			Access:   controlplane.Access{SignIn: &signin.SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: backend.Client(), Now: time.Now}, How: signin.How{Token: "given"}},
			Terminal: terminal.Open(strings.NewReader(""), &out), Notes: &notes, Now: time.Now,
		}}
		want := ""
		if more {
			want = "There are more, with older commits: git ls-remote origin 'changes/*' lists their branches in a clone.\n"
		}
		if err := Do(t.Context(), in); err != nil || out.String() != "changes/team-a/orders\n" || notes.String() != want {
			t.Errorf("there are more: %t: %v, %q, %q", more, err, out.String(), notes.String())
		}
	}
}

func TestAChangeThatWouldBeRefusedIsToBeCorrected(t *testing.T) {
	const (
		merge   = "\nTo merge it: kubectl gitbind review team-a/orders --approve --head 0123456789 --effect fedcba9876\n"
		correct = "\nMerge it only when nothing in it would be refused: what is refused has no effect.\n" +
			"To correct it: kubectl gitbind propose -f FILE -m MESSAGE --branch team-a/orders\n" +
			"To reject it: kubectl gitbind review team-a/orders --reject -m MESSAGE\n"
		blocked = "You cannot approve it: you pushed it\n"
	)
	good, bad := restapi.ChangedFile{Path: "a.yaml"}, restapi.ChangedFile{Path: "b.yaml", Problem: "no such plan"}
	for _, c := range []struct {
		name                  string
		files                 []restapi.ChangedFile
		mayApprove, mayReject bool
		want                  string
	}{
		{"who approves", []restapi.ChangedFile{good}, true, true, merge},
		{"who approves what would be refused", []restapi.ChangedFile{good, bad}, true, true, correct},
		{"who proposed", []restapi.ChangedFile{good}, false, true, "\n" + blocked},
		{"who proposed what would be refused", []restapi.ChangedFile{bad}, false, true, correct + blocked},
		{"who looks at what would be refused", []restapi.ChangedFile{bad}, false, false, "\n" + blocked},
	} {
		change := restapi.Change{Branch: "changes/team-a/orders", Head: "0123456789abcdef", Effect: "fedcba9876543210", Files: c.files, MayApprove: c.mayApprove, MayReject: c.mayReject}
		if !c.mayApprove {
			change.Blocked = "you pushed it"
		}
		var b strings.Builder
		if writeChoices(&b, change); b.String() != c.want {
			t.Errorf("%s: %q", c.name, b.String())
		}
	}
}

// Main may have moved since: the same commit then does something else.
func TestWhatTheMergeDoesNowIsApprovedByWhoHasSeenIt(t *testing.T) {
	change := restapi.Change{Branch: "changes/team-a/orders", Head: "0123456789abcdef", Effect: "fedcba9876543210", MayApprove: true}
	for _, c := range []struct{ name, effect, want string }{
		{"another effect", "aaaaaaa", "main has changed what merging changes/team-a/orders would do: look at it again"},
		{"the commit alone", "", "nobody is there to ask: kubectl gitbind review team-a/orders shows"},
	} {
		var out strings.Builder
		in := Input{Call: command.Call{Terminal: terminal.Open(strings.NewReader(""), &out)}, Approve: true, Head: "0123456", Effect: c.effect}
		if err := in.approve(t.Context(), nil, controlplane.Cluster{}, change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
