package github

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/pulls"
	testhost "gitbind.dev/test/githost"
	fake "gitbind.dev/test/github"
)

const id = "k3x9d2abqw"

// later is a host and its GitHub, on both of which time passes.
func later(t *testing.T) (h *Host, g *fake.GitHub, pass func(time.Duration)) {
	t.Helper()
	g = fake.New(t)
	cfg := onFake(g)
	ahead := time.Duration(0)
	cfg.Now = func() time.Time { return time.Now().Add(ahead) }
	return New(cfg), g, func(d time.Duration) { ahead += d; g.Pass(d) }
}

// opens tells whether a credential opens the repository: otherwise it is refused as one.
func opens(t *testing.T, h *Host, c githost.Credential) bool {
	t.Helper()
	url := strings.Replace(h.URL(id), "http://", "http://"+c.Username+":"+c.Password+"@", 1)
	out, err := testhost.Command("", "-c", "credential.helper=", "ls-remote", url).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Authentication failed") {
		t.Errorf("git ls-remote: %v: %s", err, out)
	}
	return err == nil
}

// TestAHostThatMovedIsNoRenamedRepository has a company give it another name, and the old one lead there.
func TestAHostThatMovedIsNoRenamedRepository(t *testing.T) {
	t.Parallel()
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://git.example.com"+r.URL.Path, http.StatusMovedPermanently)
	}))
	t.Cleanup(old.Close)
	cfg := onFake(fake.New(t))
	cfg.URL = old.URL
	if _, err := New(cfg).Exists(t.Context(), id); err == nil || errors.Is(err, githost.ErrRenamed) || !strings.Contains(err.Error(), "https://git.example.com") {
		t.Errorf("it says %v", err)
	}
}

func TestTokensLiveForAnHour(t *testing.T) {
	t.Parallel()
	h, _, pass := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c, err := h.Issue(t.Context(), id, "bridge", "b")
	if err != nil {
		t.Fatal(err)
	}
	if left := c.Expires.Sub(h.cfg.Now()); left < 59*time.Minute || left > time.Hour || c.Expires.Sub(c.RenewAfter) != agentLeft {
		t.Errorf("it expires in %s, and is to be renewed %s before", left, c.Expires.Sub(c.RenewAfter))
	}
	pass(56 * time.Minute)
	if ok, err := h.Exists(t.Context(), id); !ok || err != nil || !opens(t, h, c) {
		t.Errorf("before the hour is over: %t, %v", ok, err)
	}
	next, err := h.Issue(t.Context(), id, "bridge", "b")
	if err != nil || !opens(t, h, c) {
		t.Errorf("beside the next one the one before ended: %v", err)
	}
	pass(5 * time.Minute)
	if ok, err := h.Exists(t.Context(), id); !ok || err != nil || opens(t, h, c) || !opens(t, h, next) {
		t.Errorf("after the hour: %t, %v", ok, err)
	}
	// Those that ended by themselves are not ended again.
	if err := h.Retain(t.Context(), id, "bridge", func(context.Context) ([]string, error) { return nil, nil }); err != nil || opens(t, h, next) {
		t.Errorf("%v", err)
	}
}

func TestWhatSurroundsARepositoryIsLookedAtNowAndThen(t *testing.T) {
	t.Parallel()
	h, g, pass := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	before := g.Requests()
	if err := h.Create(t.Context(), id); err != nil || g.Requests() != before {
		t.Errorf("it made %d requests: %v", g.Requests()-before, err)
	}
	pass(lookEvery)
	if err := h.Create(t.Context(), id); err != nil || g.Requests() == before {
		t.Errorf("after %s it made no request: %v", lookEvery, err)
	}
}

func TestHowAnAppIsToBeInstalledIsSaid(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	ready := func() error { return h.Ready(t.Context()) }
	if err := ready(); err != nil {
		t.Fatal(err)
	}
	konnector := h.cfg.Konnector.ID
	rights := rightsOf(konnectorRights)
	for _, c := range []struct {
		words string
		do    func()
	}{
		{"suspended", func() { g.ChangeApp(konnector, true, "all", nil) }},
		{"selected repositories only", func() { g.ChangeApp(konnector, false, "selected", nil) }},
		{"lacks contents: write", func() {
			g.ChangeApp(konnector, false, "all", map[string]string{"contents": "read", "metadata": "read"})
		}},
		{"not installed", func() { g.ChangeApp(konnector, false, "all", rights); g.Reinstall(konnector, false) }},
	} {
		c.do()
		if err := ready(); !errors.Is(err, githost.ErrCredential) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v, want %q", err, c.words)
		}
	}
	g.Reinstall(konnector, true)
	if err := ready(); err != nil {
		t.Errorf("installed again: %v", err)
	}
}

func TestAnAppThatIsInstalledAgainGoesOn(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g.Reinstall(h.cfg.Backend.ID, true)
	// The token that the backend has is refused, and so is the installation that it knew.
	for range 2 {
		_, _ = h.Exists(t.Context(), id)
	}
	if ok, err := h.Exists(t.Context(), id); !ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
}

func TestTheFirstBranchIsMain(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	g.SetFirstBranch("master")
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	url, user, token, err := h.Remote(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	out, err := testhost.Command("", "-c", "credential.helper=", "ls-remote", strings.Replace(url, "http://", "http://"+user+":"+token+"@", 1)).Output()
	if err != nil || !strings.Contains(string(out), "refs/heads/main") || strings.Contains(string(out), "master") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestClustersThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	h, _, pass := later(t)
	connect := func(cluster string) {
		t.Helper()
		if err := h.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Issue(t.Context(), cluster, "bridge", "n"); err != nil {
			t.Fatal(err)
		}
	}
	connect(id)
	pass(lookEvery)
	connect("b3x9d2abqw")
	if len(h.made) != 1 || len(h.issued.to) != 1 {
		t.Errorf("it knows %v and %v", h.made, h.issued.to)
	}
}

func TestAgentsGetTokensWhileTheInstallationIsLimited(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g.LimitInstallations(time.Hour)
	var limit *githost.RateLimitError
	if _, err := h.Exists(t.Context(), id); !errors.As(err, &limit) {
		t.Errorf("what the installation is asked: %v", err)
	}
	for _, agent := range []string{"bridge", "konnector"} {
		if c, err := h.Issue(t.Context(), id, agent, "n"); err != nil || !opens(t, h, c) {
			t.Errorf("the %s gets none: %v", agent, err)
		}
	}
	if err := h.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	// The next limit may have begun before the one that was said has ended.
	g.LimitInstallations(0)
	if err := h.Retain(t.Context(), id, "bridge", func(context.Context) ([]string, error) { return nil, nil }); err != nil || g.Tokens(id) != 1 {
		t.Errorf("%d tokens count: %v", g.Tokens(id), err)
	}
}

// TestATokenThatIsNotKnownEverywhereYetIsWaitedFor has the host refuse each for half a second.
func TestATokenThatIsNotKnownEverywhereYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	h, g, pass := later(t)
	g.DelayTokens(youngWait / 2)
	if err := h.Create(t.Context(), id); err != nil {
		t.Errorf("with the first one: %v", err)
	}
	c, err := h.Issue(t.Context(), id, "bridge", "n")
	if err != nil || !opens(t, h, c) {
		t.Errorf("an agent's: %v", err)
	}
	// The one before is good for some minutes still, and no request waits for the next one,
	// which would be refused for longer than it waits.
	g.DelayTokens(tokenLeft / 2)
	pass(time.Hour - tokenLeft)
	for range 2 {
		if ok, err := h.Exists(t.Context(), id); !ok || err != nil {
			t.Errorf("beside the next one: %t, %v", ok, err)
		}
	}
	g.DelayTokens(youngWait / 2)
	pass(tokenLeft)
	if ok, err := h.Exists(t.Context(), id); !ok || err != nil {
		t.Errorf("after the one before: %t, %v", ok, err)
	}
}

// TestAPullRequestIsOpenedWithoutAllOthers has a repository with many.
func TestAPullRequestIsOpenedWithoutAllOthers(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for i := range 2*pulls.PageSize + 1 {
		g.AddPull(id, fmt.Sprint("changes/", i))
	}
	// One request looks, and one opens or edits it.
	for _, text := range []string{"Text.", "Other text."} {
		before := g.Requests()
		err := h.Open(t.Context(), id, githost.Pull{Head: strings.Repeat(text[:1], 40), Branch: "changes/1", Title: "title", Text: text})
		if n := g.Requests() - before; err != nil || n != 2 {
			t.Errorf("%d requests, %v", n, err)
		}
	}
}

// TestAWebhookIsWrittenWhenItsSecretIsAnother has the backend start again: with 500 clusters
// GitHub would not take as many changes at once.
func TestAWebhookIsWrittenWhenItsSecretIsAnother(t *testing.T) {
	t.Parallel()
	g := fake.New(t)
	cfg := onFake(g)
	start := func() {
		t.Helper()
		if err := New(cfg).Create(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		do      func()
		written int
	}{
		{func() {}, 1},
		{func() {}, 0},
		{func() { cfg.Konnector.Key = nil }, 0},
		{func() {
			key := g.ReplaceKey(cfg.Backend.ID)
			cfg.Backend.Key = func() ([]byte, error) { return key, nil }
		}, 1},
		{func() {}, 0},
		{func() { cfg.Hooks = "http://127.0.0.1:1/moved/" }, 1},
	} {
		before := g.HooksWritten()
		c.do()
		start()
		if got := g.HooksWritten() - before; got != c.written {
			t.Errorf("%d: written %d times, want %d", i, got, c.written)
		}
	}
	if n := g.Hooks(id); n != 2 {
		t.Errorf("%d hooks", n) // that of another backend stays
	}
}

// TestAnotherDefaultBranchIsThePeoples has people who made develop the default branch beside main.
func TestAnotherDefaultBranchIsThePeoples(t *testing.T) {
	t.Parallel()
	h, g, pass := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g.SetDefaultBranch(id, "develop")
	pass(lookEvery)
	if err := h.Create(t.Context(), id); err != nil {
		t.Errorf("beside main: %v", err)
	}
	if got := g.DefaultBranch(id); got != "develop" {
		t.Errorf("it is %s", got)
	}
}

// TestNobodyMergesWhatTheyPushedLast has pull requests that the backend opened, to whose branch a
// person has pushed.
func TestNobodyMergesWhatTheyPushedLast(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, pushed, approved string
		merged                 bool
	}{
		{"by nobody", "gitbind-konnector[bot]", "", false},
		{"by another", "gitbind-konnector[bot]", g.Person, true},
		{"by who pushed last", g.Person, g.Person, false},
		{"of what somebody pushed, by another", g.Person, "grace", true},
	} {
		if got := g.Mergeable(id, "gitbind[bot]", c.pushed, c.approved); got != c.merged {
			t.Errorf("approved %s: merged %t, want %t", c.what, got, c.merged)
		}
	}
}

// TestWhereNoApprovalIsWantedNoneIsNeeded has a person merge what they pushed.
func TestWhereNoApprovalIsWantedNoneIsNeeded(t *testing.T) {
	t.Parallel()
	g := fake.New(t)
	cfg := onFake(g)
	cfg.Approvals = 0
	if err := New(cfg).Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if !g.Mergeable(id, g.Person, g.Person, "") {
		t.Error("it cannot be merged")
	}
}

// TestKonnectorsPushPastWhatIsAddedToOurRuleset has a person require a check: first there, where it stays,
// then in a ruleset beside it. Rulesets add up.
func TestKonnectorsPushPastWhatIsAddedToOurRuleset(t *testing.T) {
	t.Parallel()
	h, g, pass := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	push := func() (string, bool) {
		t.Helper()
		pass(lookEvery)
		if err := h.Create(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		c, err := h.Issue(t.Context(), id, "konnector", "n")
		if err != nil {
			t.Fatal(err)
		}
		url := strings.Replace(h.URL(id), "http://", "http://"+c.Username+":"+c.Password+"@", 1)
		for _, args := range [][]string{
			{"init", "-q"}, {"fetch", "-q", url, "main"}, {"reset", "-q", "--hard", "FETCH_HEAD"}, {"commit", "-q", "--allow-empty", "-m", "More"},
		} {
			if out, err := testhost.Command(dir, args...).CombinedOutput(); err != nil {
				t.Fatalf("git %s: %v: %s", args[0], err, out)
			}
		}
		out, err := testhost.Command(dir, "push", "-q", url, "HEAD:refs/heads/main").CombinedOutput()
		return string(out), err == nil
	}
	g.AddRule(id, "gitbind main", "required_status_checks")
	if out, ok := push(); !ok {
		t.Errorf("it is refused: %s", out)
	}
	if rules := g.Rules(id, "gitbind main"); !slices.Equal(rules, []string{"pull_request", "required_status_checks"}) {
		t.Errorf("the ruleset has %q", rules)
	}
	g.AddRule(id, "company", "required_status_checks")
	if out, ok := push(); ok || !strings.Contains(out, "GH013") {
		t.Errorf("beside another ruleset it is taken: %s", out)
	}
}

func TestKeysAreReadEachTimeAndAreSaidToBeNone(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	_, other := g.AddApp("other", nil)
	good := h.backend.Key
	for words, key := range map[string][]byte{"not in PEM": []byte("0123"), "docs/hosts.md": other} {
		h.backend.Key = func() ([]byte, error) { return key, nil }
		if err := h.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	h.backend.Key = good
	if err := h.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAPlanWithoutRulesetsIsSaid has GitHub's words for private repositories of an organization
// that pays nothing.
func TestAPlanWithoutRulesetsIsSaid(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.setMade(id, time.Time{})
	g.SetAnswer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message":"Upgrade to GitHub Pro or make this repository public to enable this feature."}`))
	}))
	if err := h.Create(t.Context(), id); !errors.Is(err, githost.ErrCredential) || !strings.Contains(err.Error(), "Upgrade to GitHub Pro") {
		t.Errorf("%v", err)
	}
}

func TestWhatIsAskedAgainCostsNothing(t *testing.T) {
	t.Parallel()
	h, g, _ := later(t)
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for i, cost := range []int{1, 0, 0} {
		before := g.Requests()
		if changes, err := h.Changes(t.Context(), id); err != nil || len(changes) != 0 || g.Requests()-before != cost {
			t.Errorf("%d: it cost %d, want %d; %v, %v", i, g.Requests()-before, cost, changes, err)
		}
	}
}

// TestAPageThatTheHostKeepsShortIsNotTheLast has one that leaves out what some people wrote.
func TestAPageThatTheHostKeepsShortIsNotTheLast(t *testing.T) {
	t.Parallel()
	heads := []string{"changes/a/b/c", "changes/a/b/d", "changes/a/b/e"}
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if n < len(heads) {
			w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=%d>; rel="next"`, r.Host, r.URL.Path, n+1))
		}
		_, _ = fmt.Fprintf(w, `[{"number": %d, "state": "open", "base": {"ref": "main", "repo": {"id": 1}}, "head": {"ref": %q, "repo": {"id": 1}}}]`, n, heads[n-1])
	}))
	t.Cleanup(served.Close)
	api, err := (&app{api: served.URL + "/", installed: http.DefaultClient}).client("secret")
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{api: api, owner: "gitbind", id: id}
	opened, err := pulls.Requests{Of: func(context.Context, string) (pulls.Repository, error) { return r, nil }}.Opened(t.Context(), id)
	if got := slices.Sorted(maps.Keys(opened)); err != nil || !slices.Equal(got, heads) {
		t.Errorf("it says %v, want %v; %v", got, heads, err)
	}
}
