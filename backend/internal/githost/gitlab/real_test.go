package gitlab

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/githost"
	git "gitbind.dev/test/githost"
	fake "gitbind.dev/test/gitlab"
)

var (
	realURL   = flag.String("gitlab-url", "", "URL of a real GitLab, on which a project is made and deleted")
	realGroup = flag.String("gitlab-group", "", "path of a group there")
	realToken = flag.String("gitlab-token-file", "", "file with a personal access token, with the scope api, of an Owner of the group")
)

// TestOnARealGitLab is what somebody with an account runs: make test-gitlab.
func TestOnARealGitLab(t *testing.T) {
	t.Parallel()
	if *realURL == "" {
		t.Skip("needs a GitLab: make test-gitlab GITLAB_URL=… GITLAB_GROUP=… GITLAB_TOKEN_FILE=…")
	}
	whole(t, New(Config{
		URL: strings.TrimSuffix(*realURL, "/"), Group: *realGroup, Hooks: "https://gitbind.example.com/v1/webhooks/gitlab/", Approvals: 1,
		Token: func() (string, error) {
			data, err := os.ReadFile(*realToken)
			return strings.TrimSpace(string(data)), err
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}), time.Minute)
}

func TestWhatARealGitLabIsAskedOnTheFake(t *testing.T) {
	t.Parallel()
	f := fake.New(t, 20*time.Millisecond)
	whole(t, hostOf(f, f.Person("gitbind", fake.Owner, "api")), 0)
}

// whole tries all that the backend needs of a GitLab, one step after the other. What the host
// does in the background may take so long.
func whole(t *testing.T, h *Host, patience time.Duration) {
	ctx, id := t.Context(), "try"+strings.ToLower(rand.Text()[:7])
	ask := func(method, path string, body, out any) {
		t.Helper()
		if err := h.send(ctx, method, h.project(id)+path, body, out); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	eventually := func(what string, is func() error) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(time.Second) {
			err := is()
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	if err := h.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if exists, err := h.Exists(ctx, id); exists || err != nil {
		t.Fatalf("before it is made: %t %v", exists, err)
	}
	t.Cleanup(func() {
		err := h.send(context.WithoutCancel(ctx), http.MethodDelete, h.project(id), nil, nil)
		t.Logf("the project %s was deleted: %v", h.path(id), err)
	})
	for range 2 {
		if err := h.Create(ctx, id); err != nil {
			t.Fatal(err)
		}
	}

	tokens := map[string]string{}
	for _, agent := range []string{konnector, bridge} {
		c, err := h.Issue(ctx, id, agent, "try")
		if err != nil {
			t.Fatal(err)
		}
		tokens[agent] = c.Password
	}
	dir := clone(t, h.URL(id), tokens[konnector])
	for _, c := range []struct {
		agent, ref string
		ok         bool
	}{
		{konnector, "refs/heads/main", true},
		{bridge, "refs/heads/main", false},
		{bridge, "refs/heads/status", true},
		{bridge, "+refs/heads/status", true},
		{konnector, "refs/heads/changes/orders", true},
	} {
		if err := push(t, h.URL(id), dir, tokens[c.agent], c.ref); (err == nil) != c.ok {
			t.Errorf("the %s pushes to %s: %v", c.agent, c.ref, err)
		}
	}
	for _, refspec := range []string{"+origin/main~1:refs/heads/main", ":refs/heads/main", ":refs/heads/status"} {
		if out, err := git.Command(dir, "push", with(t, h.URL(id), tokens[konnector]), refspec).CombinedOutput(); err == nil {
			t.Errorf("the konnector pushed %s: %s", refspec, out)
		}
	}

	head, err := git.Command(dir, "rev-parse", "origin/changes/orders").Output()
	if err != nil {
		t.Fatal(err)
	}
	pull := githost.Pull{Head: strings.TrimSpace(string(head)), Branch: "changes/orders", Title: "Order it", Text: "It is ordered.\n\n/close"}
	for range 2 {
		if err := h.Open(ctx, id, pull); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := h.Changes(ctx, id)
	if diff := cmp.Diff(map[string]string{"refs/merge-requests/1/head": "changes/pull-1"}, changes); err != nil || diff != "" {
		t.Fatal("the open merge requests:", err, diff)
	}
	eventually("the merge request can be fetched", func() error {
		out, err := git.Command(dir, "ls-remote", "--exit-code", h.remote(t, id), "refs/merge-requests/1/head").Output()
		if err == nil && !strings.HasPrefix(string(out), pull.Head) {
			err = errors.New(string(out))
		}
		return err
	})
	for _, branch := range []string{"changes/orders", "changes/pull-1", "changes/pull-1"} {
		check := githost.Check{Commit: pull.Head, Branch: branch, Words: "It would be refused", URL: "https://gitbind.example.com", Text: "It would be refused.\n\n/close"}
		if err := h.Check(ctx, id, check); err != nil {
			t.Fatal(err)
		}
	}
	var statuses []struct{ Name, Status string }
	ask(http.MethodGet, "/repository/commits/"+pull.Head+"/statuses", nil, &statuses)
	if !slices.Contains(statuses, struct{ Name, Status string }{"gitbind", "failed"}) {
		t.Errorf("the commit shows %+v", statuses)
	}
	var notes []struct {
		System bool
		Body   string
	}
	ask(http.MethodGet, "/merge_requests/1/notes", nil, &notes)
	notes = slices.DeleteFunc(notes, func(n struct {
		System bool
		Body   string
	}) bool {
		return n.System
	})
	if len(notes) != 1 {
		t.Errorf("it has the comments %+v", notes)
	}
	if opened, err := h.Opened(ctx, id); err != nil || opened["changes/orders"].Closed != "" || opened["changes/orders"].Page == "" {
		t.Errorf("open, it is said to be %+v: %v", opened, err)
	}
	ask(http.MethodPut, "/merge_requests/1", map[string]any{"state_event": "close"}, nil)
	if opened, err := h.Opened(ctx, id); err != nil || opened["changes/orders"].Closed != pull.Head {
		t.Errorf("closed, it is said to be %+v: %v", opened, err)
	}

	// By now the host has made its own rule, if it does.
	if err := h.Create(ctx, id); err != nil {
		t.Fatal(err)
	}
	for _, want := range rules {
		if shown, err := h.rule(ctx, id, want.Name); err != nil || shown == nil || !want.is(shown) {
			t.Errorf("the rule of %s is %+v: %v", want.Name, shown, err)
		}
	}
	if err := h.Retain(ctx, id, konnector, func(context.Context) ([]string, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	for agent, ok := range map[string]bool{konnector: false, bridge: true} {
		out, err := git.Command(dir, "ls-remote", with(t, h.URL(id), tokens[agent])).CombinedOutput()
		if (err == nil) != ok {
			t.Errorf("after the konnector's ended, the %s's token: %v: %s", agent, err, out)
		}
	}

	is := func(want error) {
		t.Helper()
		if exists, err := h.Exists(ctx, id); exists != (want == nil) || !errors.Is(err, want) {
			t.Errorf("it exists: %t; %v; want %v", exists, err, want)
		}
	}
	is(nil)
	ask(http.MethodPost, "/archive", nil, nil)
	is(githost.ErrArchived)
	ask(http.MethodPost, "/unarchive", nil, nil)
	is(nil)
	ask(http.MethodPut, "", map[string]any{"path": id + "-moved"}, nil)
	is(githost.ErrRenamed)
	id += "-moved"
	ask(http.MethodPut, "", map[string]any{"path": strings.TrimSuffix(id, "-moved")}, nil)
	id = strings.TrimSuffix(id, "-moved")
	is(nil)
	ask(http.MethodDelete, "", nil, nil)
	eventually("what is deleted does not exist", func() error {
		exists, err := h.Exists(ctx, id)
		if exists || err != nil && !errors.Is(err, githost.ErrMarkedForDeletion) {
			return errors.Join(err, errors.New("it does"))
		}
		return nil
	})
}

// remote is a clone URL with what opens all.
func (h *Host) remote(t *testing.T, id string) string {
	t.Helper()
	url, _, secret, err := h.Remote(id)
	if err != nil {
		t.Fatal(err)
	}
	return with(t, url, secret)
}
