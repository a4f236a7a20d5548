package gitlab

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/client"
	git "gitbind.dev/test/githost"
	fake "gitbind.dev/test/gitlab"
)

const (
	cluster   = "k3x9d2abqw"
	konnector = credential.KonnectorUser
	bridge    = credential.BridgeUser
)

// start begins a fake, whose own rule for main comes so long after a project, and what the
// backend makes of it.
func start(t *testing.T, protectAfter time.Duration) (*fake.Fake, *Host) {
	t.Helper()
	f := fake.New(t, protectAfter)
	return f, hostOf(f, f.Person("gitbind", fake.Maintainer, "api"))
}

func hostOf(f *fake.Fake, token string) *Host {
	return New(Config{
		URL: f.Server.URL, Group: f.Group, Token: func() (string, error) { return token, nil }, Hooks: "http://127.0.0.1:1/hooks/", Log: slog.New(slog.DiscardHandler),
	})
}

func create(t *testing.T, h *Host) {
	t.Helper()
	if err := h.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// clone is a work tree of a repository.
func clone(t *testing.T, repository, secret string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	if out, err := git.Command("", "clone", "--quiet", with(t, repository, secret), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// with is a clone URL with a credential.
func with(t *testing.T, repository, secret string) string {
	t.Helper()
	u, err := url.Parse(repository)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("x", secret)
	return u.String()
}

// push commits on top of main, and pushes that to a ref as who has a secret; with force if the
// ref begins with "+".
func push(t *testing.T, repository, dir, secret, ref string) error {
	t.Helper()
	ref, force := strings.CutPrefix(ref, "+")
	for _, args := range [][]string{
		{"checkout", "--quiet", "--detach", "origin/main"},
		{"commit", "--quiet", "--allow-empty", "--message", "Change " + ref + " " + rand.Text()},
		{"push", "--quiet", map[bool]string{true: "--force", false: "--no-force"}[force], with(t, repository, secret), "HEAD:" + ref},
		{"fetch", "--quiet"},
	} {
		if out, err := git.Command(dir, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// groupToken is a token of the group with a role.
func groupToken(t *testing.T, owner *Host, r role) string {
	t.Helper()
	var made token
	if err := owner.send(context.WithoutCancel(t.Context()), http.MethodPost, "/groups/"+url.PathEscape(owner.cfg.Group)+"/access_tokens", map[string]any{
		"name": "test", "access_level": r, "scopes": []string{"api", "write_repository"}, "expires_at": time.Now().AddDate(0, 0, 2).Format(time.DateOnly),
	}, &made); err != nil {
		t.Fatal(err)
	}
	return made.Secret
}

func issue(t *testing.T, h *Host, agent, name string) string {
	t.Helper()
	c, err := h.Issue(t.Context(), cluster, agent, name)
	if err != nil {
		t.Fatal(err)
	}
	return c.Password
}

var ours = []fake.Rule{{Name: "main", Push: fake.Maintainer, Merge: fake.Developer}, {Name: "status", Push: fake.Maintainer, Force: true}}

func TestTheRuleThatTheHostMakesForMainIsReplaced(t *testing.T) {
	t.Parallel()
	theirs := fake.Rule{Name: "main", Push: fake.Maintainer, Merge: fake.Maintainer}
	for name, when := range map[string]func(*testing.T, *fake.Fake, *Host){
		"it comes after ours": func(t *testing.T, f *fake.Fake, h *Host) {
			create(t, h)
			f.Settle()
		},
		"it is there before": func(t *testing.T, f *fake.Fake, h *Host) {
			if _, err := h.create(t.Context(), cluster, true); err != nil {
				t.Fatal(err)
			}
			f.Settle()
			if diff := cmp.Diff([]fake.Rule{theirs}, f.Rules(cluster)); diff != "" {
				t.Fatal("the fake did not make its own", diff)
			}
			create(t, h)
		},
		"it comes at the same time": func(t *testing.T, f *fake.Fake, h *Host) {
			f.SetBefore(func(r *http.Request) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/protected_branches") {
					f.SetBefore(nil)
					f.Protect(cluster, theirs)
				}
			})
			create(t, h)
		},
		"it comes in the place of ours": func(t *testing.T, f *fake.Fake, h *Host) {
			create(t, h)
			f.Settle()
			f.Protect(cluster, theirs)
			create(t, h)
		},
		"the backend ended before, and began again an hour later": func(t *testing.T, f *fake.Fake, h *Host) {
			if _, err := h.create(t.Context(), cluster, true); err != nil {
				t.Fatal(err)
			}
			f.Settle()
			f.Age(cluster, time.Hour)
			create(t, h)
		},
		"so it did, and the group lets developers push": func(t *testing.T, f *fake.Fake, h *Host) {
			if _, err := h.create(t.Context(), cluster, true); err != nil {
				t.Fatal(err)
			}
			f.Settle()
			f.Protect(cluster, fake.Rule{Name: "main", Push: fake.Developer, Merge: fake.Maintainer})
			f.Age(cluster, time.Hour)
			create(t, h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, h := start(t, 20*time.Millisecond)
			when(t, f, h)
			if diff := cmp.Diff(ours, f.Rules(cluster)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatSomebodyChangesOnTheHostStays(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	f.Settle()
	f.Age(cluster, 2*setupTime)
	strict := fake.Rule{Name: "main", Push: 0, Merge: fake.Maintainer}
	f.Protect(cluster, strict)
	create(t, h)
	if diff := cmp.Diff([]fake.Rule{strict, ours[1]}, f.Rules(cluster)); diff != "" {
		t.Error(diff)
	}
	f.Unprotect(cluster, "status")
	create(t, h)
	if diff := cmp.Diff([]fake.Rule{strict, ours[1]}, f.Rules(cluster)); diff != "" {
		t.Error("beside a rule that was removed", diff)
	}
	f.Unprotect(cluster, "status")
	h.cfg.Hooks = "http://127.0.0.1:1/moved/"
	create(t, h)
	if diff := cmp.Diff([]fake.Rule{strict, ours[1]}, f.Rules(cluster)); diff != "" {
		t.Error("of a backend with another address", diff)
	}
	f.Unprotect(cluster, "status")
	f.Unprotect(cluster, "main")
	create(t, h)
	if diff := cmp.Diff(ours, f.Rules(cluster)); diff != "" {
		t.Error("what somebody removed is missing", diff)
	}
}

func TestAnAgentsTokenOpensARepositoryAndNoAPI(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	for _, agent := range []string{konnector, bridge} {
		secret := issue(t, h, agent, "a")
		clone(t, h.URL(cluster), secret)
		for _, path := range []string{"/user", h.project(cluster), h.project(cluster) + "/access_tokens"} {
			if code := f.Ask(secret, http.MethodGet, path, nil, nil); code != http.StatusForbidden {
				t.Errorf("%s as the %s: %d", path, agent, code)
			}
		}
	}
}

func TestTokensThatDoNotCountEnd(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	f.SetPage(2)
	admin := f.Person("owner", fake.Owner, "api")
	if code := f.Ask(admin, http.MethodPost, h.project(cluster)+"/access_tokens", map[string]any{
		"name": "a person's", "scopes": []string{"api"}, "expires_at": time.Now().AddDate(0, 0, 9).Format(time.DateOnly),
	}, nil); code != http.StatusCreated {
		t.Fatal(code)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		issue(t, h, konnector, name)
	}
	// The one before goes on until the next one is in the agent's hands.
	var renewed []string
	for range keptTokens + 1 {
		renewed = append(renewed, issue(t, h, bridge, "a"))
	}
	for i, secret := range renewed {
		if code := f.Ask(secret, http.MethodGet, "/user", nil, nil); (code == http.StatusUnauthorized) != (i == 0) {
			t.Errorf("%d: %d", i, code)
		}
	}
	err := h.Retain(t.Context(), cluster, konnector, func(context.Context) ([]string, error) {
		issue(t, h, konnector, "meanwhile")
		return []string{"b", "e"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a person's", "gitbind-bridge-a", "gitbind-bridge-a", "gitbind-bridge-a", "gitbind-konnector-b", "gitbind-konnector-e", "gitbind-konnector-meanwhile"}
	if diff := cmp.Diff(want, f.Tokens(cluster)); diff != "" {
		t.Error(diff)
	}
	if err := h.Retain(t.Context(), "another1", konnector, func(context.Context) ([]string, error) { return nil, nil }); err != nil {
		t.Errorf("of a cluster without a project: %v", err)
	}
}

// TestATokenThatCannotBeMadeEndsNoOther sees in which order tokens are made and ended.
func TestATokenThatCannotBeMadeEndsNoOther(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	inUse := issue(t, h, bridge, "a")
	issue(t, h, bridge, "a") // its answer was lost
	var made bool
	f.SetBefore(func(r *http.Request) {
		made = made || r.Method == http.MethodPost
		if r.Method == http.MethodDelete && !made {
			t.Errorf("%s before there is another one", r.URL.Path)
		}
	})
	issue(t, h, bridge, "a")
	f.SetBefore(nil)
	if code := f.Ask(inUse, http.MethodGet, "/user", nil, nil); code == http.StatusUnauthorized {
		t.Error("the one in use has ended")
	}
}

// TestTokensOfAProjectThatIsNotShownAreNotTakenForGone takes the account out of the group.
func TestTokensOfAProjectThatIsNotShownAreNotTakenForGone(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	issue(t, h, bridge, "a")
	outsider := f.Person("outsider", 0, "api")
	h.cfg.Token = func() (string, error) { return outsider, nil }
	err := h.Retain(t.Context(), cluster, bridge, func(context.Context) ([]string, error) { return nil, nil })
	if !errors.Is(err, githost.ErrCredential) {
		t.Errorf("%v", err)
	}
}

func TestATokenIsRenewedBeforeTheHostEndsIt(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	c, err := h.Issue(t.Context(), cluster, konnector, "a")
	if err != nil {
		t.Fatal(err)
	}
	if f.Expiry(c.Password) != c.Expires.Format(time.DateOnly) || c.Expires.After(time.Now().AddDate(0, 0, 365)) {
		t.Errorf("it ends on %s, and is said to end at %s", f.Expiry(c.Password), c.Expires)
	}
	if left := c.Expires.Sub(c.RenewAfter); left < 7*24*time.Hour || !c.RenewAfter.After(time.Now()) {
		t.Errorf("it is renewed at %s, and ends at %s", c.RenewAfter, c.Expires)
	}
}

func TestWhatTheOperatorIsToMendIsSaid(t *testing.T) {
	t.Parallel()
	f, good := start(t, 0)
	create(t, good)
	revoked := f.Person("gone", fake.Owner, "api")
	f.Revoke(revoked)
	group := groupToken(t, hostOf(f, f.Person("owner", fake.Owner, "api")), maintainer)
	for name, c := range map[string]struct {
		token, words string
		do           func(*Host) error
	}{
		"it was revoked":            {revoked, "Token was revoked", func(h *Host) error { return h.Ready(t.Context()) }},
		"its account sees no group": {f.Person("stranger", 0, "api"), "it shows no group company/services", func(h *Host) error { return h.Ready(t.Context()) }},
		"it lacks the scope":        {f.Person("reader", fake.Owner, "read_api"), "insufficient_scope", func(h *Host) error { return h.Create(t.Context(), "another1") }},
		"it may only read":          {f.Person("reader", fake.Owner, "read_api"), "the token lacks the scope api", func(h *Host) error { return h.Ready(t.Context()) }},
		"its role is too low":       {f.Person("dev", fake.Developer, "api"), "403 Forbidden", func(h *Host) error { return h.Create(t.Context(), cluster) }},
		"it is a group's": {group, "does not have permission to create project access token", func(h *Host) error {
			_, err := h.Issue(t.Context(), cluster, konnector, "a")
			return err
		}},
	} {
		err := c.do(hostOf(f, c.token))
		if !errors.Is(err, githost.ErrCredential) || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
	}
	if err := hostOf(f, group).Create(t.Context(), "another1"); err != nil {
		t.Errorf("a group's token makes no project: %v", err)
	}
}

// expiry keeps when a credential is said to end.
type expiry struct{ at time.Time }

func (*expiry) Asked(string, client.Result) {}

func (*expiry) Remaining(string, float64, time.Time) {}

func (e *expiry) Expires(_ string, at time.Time) { e.at = at }

// TestThatTheBackendsTokenEndsIsSaidBefore has a token of a service account, of which GitLab tells nobody.
func TestThatTheBackendsTokenEndsIsSaidBefore(t *testing.T) {
	t.Parallel()
	f := fake.New(t, 0)
	token := f.Person("gitbind", fake.Maintainer, "api")
	var log bytes.Buffer
	h, seen := hostOf(f, token), &expiry{}
	h.cfg.Log, h.cfg.Observer = slog.New(slog.NewTextHandler(&log, nil)), seen
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for _, c := range []struct {
		what string
		days int // 0 for a token that does not end
		said bool
	}{
		{"it does not end", 0, false},
		{"in months", 60, false},
		{"in a month", 30, true},
		{"in a month, asked again", 30, false},
		{"a day later", 29, true},
		{"on the last day", 1, true},
		{"the next token", 365, false},
	} {
		var at time.Time
		date := ""
		if c.days > 0 {
			at = today.AddDate(0, 0, c.days)
			date = at.Format(time.DateOnly)
		}
		f.SetExpiry(token, date)
		log.Reset()
		if err := h.Ready(t.Context()); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if said := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), date); said != c.said || strings.Contains(log.String(), token) {
			t.Errorf("%s: it is said %t, want %t: %s", c.what, said, c.said, &log)
		}
		if !seen.at.Equal(at) {
			t.Errorf("%s: it is told to end at %s, want %s", c.what, seen.at, at)
		}
	}
	// What has no such path is no trouble.
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/self") {
			http.NotFound(w, r)
			return
		}
		f.Server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(old.Close)
	h.cfg.URL, h.http = old.URL, client.New(old.URL, "backend", nil)
	if err := h.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAProjectThatIsMarkedForDeletionIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do func(*fake.Fake)
	}{
		"marked for deletion": {func(f *fake.Fake) { f.Delete(cluster) }},
		"marked for deletion and renamed": {func(f *fake.Fake) {
			f.Delete(cluster)
			f.Rename(cluster, cluster+"-deletion_scheduled-7")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, h := start(t, 0)
			create(t, h)
			f.Settle()
			if exists, err := h.Exists(t.Context(), cluster); !exists || err != nil {
				t.Fatal(exists, err)
			}
			c.do(f)
			if exists, err := h.Exists(t.Context(), cluster); exists || !errors.Is(err, githost.ErrMarkedForDeletion) {
				t.Errorf("it exists: %t; %v", exists, err)
			}
			if err := h.Create(t.Context(), cluster); !errors.Is(err, githost.ErrMarkedForDeletion) {
				t.Errorf("it is made again: %v", err)
			}
		})
	}
}

func TestNothingIsAskedOfAHostThatWantsToBeLeftAlone(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	f.Limit(90 * time.Second)
	for _, all := range []map[string]func() error{{
		"open":  func() error { return h.Open(t.Context(), cluster, githost.Pull{}) },
		"check": func() error { return h.Check(t.Context(), cluster, githost.Check{Branch: "changes/a"}) },
	}, {
		"issue":  func() error { _, err := h.Issue(t.Context(), cluster, bridge, "a"); return err },
		"retain": func() error { return h.Retain(t.Context(), cluster, bridge, nil) },
	}} {
		asked := f.Requests()
		for name, do := range all {
			var limit *githost.RateLimitError
			if err := do(); !errors.As(err, &limit) || time.Until(limit.Until) < time.Minute || f.Requests() != asked+1 {
				t.Errorf("%s: %v after %d requests", name, err, f.Requests()-asked)
			}
		}
	}
}

func TestCredentialsWaitForNoLimitOfWhatIsRead(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	f.Limit(time.Hour)
	if _, err := h.Changes(t.Context(), cluster); !errors.As(err, new(*githost.RateLimitError)) {
		t.Fatal(err)
	}
	f.Limit(0)
	issue(t, h, bridge, "a")
	if err := h.Retain(t.Context(), cluster, bridge, func(context.Context) ([]string, error) { return nil, nil }); err != nil || len(f.Tokens(cluster)) != 0 {
		t.Errorf("%d tokens count: %v", len(f.Tokens(cluster)), err)
	}
	// No project, no tokens: that is asked as well.
	if err := h.Retain(t.Context(), "k3other", bridge, nil); err != nil {
		t.Error(err)
	}
}

func TestApprovalsAreRequiredWhereTheTierKnowsThem(t *testing.T) {
	t.Parallel()
	for _, premium := range []bool{false, true} {
		f, h := start(t, 0)
		h.cfg.Approvals = 2
		want := 0
		if premium {
			f.SetPremium()
			want = 2
		}
		create(t, h)
		create(t, h)
		if n := f.Approvals(cluster); n != want {
			t.Errorf("premium %t: %d", premium, n)
		}
		f.Age(cluster, 2*setupTime)
		f.SetApprovals(cluster, 1)
		create(t, h)
		if n := f.Approvals(cluster); premium && n != 1 {
			t.Errorf("what somebody changed is %d", n)
		}
		f.SetApprovals(cluster, 0)
		create(t, h)
		if n := f.Approvals(cluster); n != want {
			t.Errorf("premium %t: where they are missing, as if the backend had ended before it made them, they are %d", premium, n)
		}
	}
}

// TestOneProjectsTroubleTakesNoApprovalsFromOthers has one deleted while it is set up.
func TestOneProjectsTroubleTakesNoApprovalsFromOthers(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	f.SetPremium()
	h.cfg.Approvals = 1
	const deleted, next = "aaaaaaaaaa", "bbbbbbbbbb"
	root := f.Person("root", fake.Owner, "api")
	f.SetBefore(func(r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/approval_rules") {
			f.SetBefore(nil)
			f.Ask(root, http.MethodDelete, h.project(deleted), nil, nil)
			f.Ask(root, http.MethodDelete, h.project(deleted)+"?permanently_remove=true&full_path="+f.Group+"/"+deleted, nil, nil)
		}
	})
	if err := h.Create(t.Context(), deleted); !isNotFound(err) {
		t.Errorf("the deleted one: %v", err)
	}
	if err := h.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if n := f.Approvals(next); n != 1 {
		t.Errorf("the next project requires %d approvals, want 1", n)
	}
}

// TestTokensHaveNotEndedWhileNobodySaysSo has a proxy answer 404 to everything once tokens are ended.
func TestTokensHaveNotEndedWhileNobodySaysSo(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	issue(t, h, konnector, "a")
	var away atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Store(away.Load() || r.Method == http.MethodDelete); away.Load() {
			http.NotFound(w, r)
			return
		}
		f.Server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	h = hostOf(f, f.Person("root", fake.Owner, "api"))
	h.cfg.URL = proxy.URL
	h.http = client.New(proxy.URL, "backend", nil)
	if err := h.Retain(t.Context(), cluster, konnector, func(context.Context) ([]string, error) { return nil, nil }); err == nil || !away.Load() {
		t.Errorf("all tokens are said to have ended; it was asked: %t", away.Load())
	}
}

// TestLongDescriptionsAndCommentsStopNothing has people write as much as the host takes, which is more
// than is read at once.
func TestLongDescriptionsAndCommentsStopNothing(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	secret := groupToken(t, hostOf(f, f.Person("root", fake.Owner, "api")), developer)
	dir, dev := clone(t, h.URL(cluster), secret), hostOf(f, secret)
	long := strings.Repeat("x", 1_000_000)
	for i := range 9 {
		branch := fmt.Sprint("changes/m", i)
		if err := push(t, h.URL(cluster), dir, secret, "refs/heads/"+branch); err != nil {
			t.Fatal(err)
		}
		if err := dev.send(t.Context(), http.MethodPost, h.project(cluster)+"/merge_requests", map[string]any{"source_branch": branch, "target_branch": "main", "title": "x", "description": long}, nil); err != nil {
			t.Fatal(err)
		}
		if err := dev.send(t.Context(), http.MethodPost, h.merges(cluster).one(1)+"/notes", map[string]any{"body": long}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if opened, err := h.Opened(t.Context(), cluster); err != nil || len(opened) != 9 {
		t.Errorf("%d are opened: %v", len(opened), err)
	}
	if changes, err := h.Changes(t.Context(), cluster); err != nil || len(changes) != 9 {
		t.Errorf("%d are copied: %v", len(changes), err)
	}
	head := f.Git(cluster, "rev-parse", "changes/m1")
	if err := h.Open(t.Context(), cluster, githost.Pull{Head: head, Branch: "changes/m1", Title: "x", Text: "One thing."}); err != nil {
		t.Errorf("Open: %v", err)
	}
	var m merge
	if err := h.get(t.Context(), h.merges(cluster).one(2), &m); err != nil || !strings.HasPrefix(m.Description, long) || !strings.Contains(m.Description, "One thing.") {
		t.Errorf("it shows %d bytes: %v", len(m.Description), err)
	}
	for _, text := range []string{"It is well.", "It is better."} {
		if err := h.Check(t.Context(), cluster, githost.Check{Commit: f.Git(cluster, "rev-parse", "changes/m0"), Branch: "changes/pull-1", Words: "Well", Text: text}); err != nil {
			t.Error(err)
		}
	}
	var said []struct{ Body string }
	if err := h.get(t.Context(), h.merges(cluster).one(1)+"/notes?page=10&per_page=1", &said); err != nil || len(said) != 1 || !strings.HasSuffix(said[0].Body, "It is better.") {
		t.Errorf("people read %q: %v", said, err)
	}
}

func TestE12_APushIsToldOnceAndAgainAfterTheBackendWasAway(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	moved := make(chan string, 10)
	var away atomic.Bool
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{cluster}", h.Webhook(slog.New(slog.DiscardHandler), func(cluster string) { moved <- cluster }))
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(backend.Close)
	h.cfg.Hooks = backend.URL + "/hooks/"
	create(t, h)
	create(t, h)
	secret := issue(t, h, konnector, "a")
	dir := clone(t, h.URL(cluster), secret)
	told := func(want int) {
		t.Helper()
		if err := push(t, h.URL(cluster), dir, secret, "refs/heads/main"); err != nil {
			t.Fatal(err)
		}
		f.Settle()
		if len(moved) != want {
			t.Errorf("it was told %d times, want %d", len(moved), want)
		}
		for range len(moved) {
			if id := <-moved; id != cluster {
				t.Errorf("of %s", id)
			}
		}
	}
	told(1)
	away.Store(true)
	for range 4 {
		told(0)
	}
	away.Store(false)
	told(0) // the host has given up
	create(t, h)
	told(1)
}

func TestAWebhookThatTheHostDoesNotTakeIsSaid(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	f.RefuseHooks()
	if err := h.Create(t.Context(), cluster); !errors.Is(err, githost.ErrWebhook) || !strings.Contains(err.Error(), "Invalid url given") {
		t.Errorf("%v", err)
	}
}

// TestNothingThatIsWrittenIsDone has tenants' words begin with what the host takes for commands.
func TestNothingThatIsWrittenIsDone(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	secret := issue(t, h, konnector, "a")
	if err := push(t, h.URL(cluster), clone(t, h.URL(cluster), secret), secret, "refs/heads/changes/orders"); err != nil {
		t.Fatal(err)
	}
	commit := f.Git(cluster, "rev-parse", "changes/orders")
	if err := h.Open(t.Context(), cluster, githost.Pull{Head: commit, Branch: "changes/orders", Title: "Order it", Text: "It is ordered.\n/close\n  /merge"}); err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context(), cluster, githost.Check{Commit: commit, Branch: "changes/pull-1", Words: "Well", Text: "It is well.\n/close"}); err != nil {
		t.Fatal(err)
	}
	ada := f.Person("ada", fake.Developer, "api")
	var opened struct{ State, Description string }
	f.Ask(ada, http.MethodGet, h.project(cluster)+"/merge_requests/1", nil, &opened)
	var said []struct{ Body string }
	f.Ask(ada, http.MethodGet, h.project(cluster)+"/merge_requests/1/notes", nil, &said)
	if opened.State != "opened" || !strings.Contains(opened.Description, "\nIt is ordered.\n\\/close\n  \\/merge\n") {
		t.Errorf("%+v", opened)
	}
	if len(said) != 1 || !strings.HasSuffix(said[0].Body, "It is well.\n\\/close") {
		t.Errorf("%q", said)
	}
}

// TestWhatIsShownAlreadyIsNotWrittenAgain counts what is written, also after the backend began again.
func TestWhatIsShownAlreadyIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	secret := issue(t, h, konnector, "a")
	if err := push(t, h.URL(cluster), clone(t, h.URL(cluster), secret), secret, "refs/heads/changes/orders"); err != nil {
		t.Fatal(err)
	}
	commit := f.Git(cluster, "rev-parse", "changes/orders")
	if err := h.Open(t.Context(), cluster, githost.Pull{Head: commit, Branch: "changes/orders", Title: "Order it", Text: "It is ordered."}); err != nil {
		t.Fatal(err)
	}
	var written []string
	f.SetBefore(func(r *http.Request) {
		if r.Method != http.MethodGet {
			written = append(written, r.Method+" "+path.Base(path.Dir(r.URL.Path)))
		}
	})
	for _, c := range []struct {
		name  string
		check githost.Check
		want  []string
	}{
		{"first", githost.Check{Words: "Well", URL: "https://a", Text: "Well.\n/close"}, []string{"POST statuses", "POST 1"}},
		{"again", githost.Check{Words: "Well", URL: "https://a", Text: "Well.\n/close"}, nil},
		{"on another page", githost.Check{Words: "Well", URL: "https://b", Text: "Well.\n/close"}, []string{"POST statuses"}},
		{"in other words", githost.Check{Words: "Good", URL: "https://b", Text: "Well.\n/close"}, []string{"POST statuses"}},
		{"turned good", githost.Check{OK: true, Words: "Good", URL: "https://b", Text: "Well.\n/close"}, []string{"POST statuses"}},
		{"explained otherwise", githost.Check{OK: true, Words: "Good", URL: "https://b", Text: "/close"}, []string{"PUT notes"}},
		{"to be tried", githost.Check{Pending: true, Words: "Tried", URL: "https://b", Text: "/close"}, []string{"POST statuses"}},
		{"to be tried in other words", githost.Check{Pending: true, Words: "Tried again", URL: "https://b", Text: "/close"}, nil},
		{"turned bad again", githost.Check{Words: "Good", URL: "https://b", Text: "/close"}, []string{"POST statuses"}},
	} {
		written = nil
		c.check.Commit, c.check.Branch = commit, "changes/pull-1"
		if err := h.Check(t.Context(), cluster, c.check); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, written); diff != "" {
			t.Error(c.name, diff)
		}
	}
	written = nil
	if err := h.Check(t.Context(), cluster, githost.Check{Commit: commit, Branch: "changes/orders", Words: "Good", URL: "https://b"}); err != nil || len(written) > 0 {
		t.Errorf("by the branch's own name: %v, %q", err, written)
	}
}

func TestAChangeFromAForkHasWordsAndNoStatus(t *testing.T) {
	t.Parallel()
	f, h := start(t, 0)
	create(t, h)
	commit := f.Git(cluster, "rev-parse", "main")
	number := f.Fork(cluster, commit)
	branch := fmt.Sprint("changes/pull-", number)
	if err := h.Check(t.Context(), cluster, githost.Check{Commit: commit, Branch: branch, OK: true, Words: "It changes nothing", Text: "Nothing."}); err != nil {
		t.Fatal(err)
	}
	ada := f.Person("ada", fake.Developer, "api")
	var said, statuses []struct{ Body string }
	f.Ask(ada, http.MethodGet, fmt.Sprintf("%s/merge_requests/%d/notes", h.project(cluster), number), nil, &said)
	f.Ask(ada, http.MethodGet, h.project(cluster)+"/repository/commits/"+commit+"/statuses", nil, &statuses)
	if len(said) != 1 || len(statuses) != 0 {
		t.Errorf("%q %q", said, statuses)
	}
	if opened, err := h.Opened(t.Context(), cluster); err != nil || len(opened) != 0 {
		t.Errorf("it is taken for a branch of the project: %v %v", opened, err)
	}
}
