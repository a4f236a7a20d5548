package github

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/google/go-github/v93/github"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/hosttest"
	"gitbind.dev/backend/internal/githost/pulls"
	fake "gitbind.dev/test/github"
)

// rights are those of an App, as GitHub has them in JSON.
func rightsOf(p sdk.InstallationPermissions) map[string]string {
	out := map[string]string{}
	for name, level := range map[string]*string{
		"administration": p.Administration, "checks": p.Checks, "contents": p.Contents, "metadata": p.Metadata,
		"pull_requests": p.PullRequests, "repository_hooks": p.RepositoryHooks,
	} {
		if level != nil {
			out[name] = *level
		}
	}
	return out
}

// onFake is a configuration for a fake, on which both Apps are installed.
func onFake(g *fake.GitHub) Config {
	add := func(slug string, rights sdk.InstallationPermissions) App {
		id, key := g.AddApp(slug, rightsOf(rights))
		return App{ID: id, Key: func() ([]byte, error) { return key, nil }}
	}
	return Config{
		URL: g.URL, Organization: g.Organization, Hooks: "http://127.0.0.1:1/hooks/", Approvals: 1,
		Backend: add("gitbind", backendRights), Konnector: add("gitbind-konnector", konnectorRights),
	}
}

// world plays people by GitHub's API, with a token of one.
func world(t *testing.T, cfg Config, user, token string) hosttest.World {
	t.Helper()
	api := apiURL(cfg.URL)
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	client, err := sdk.NewClient(sdk.WithHTTPClient(direct), sdk.WithURLs(&api, &api), sdk.WithAuthToken(token))
	if err != nil {
		t.Fatal(err)
	}
	key, err := cfg.Backend.Key()
	if err != nil {
		t.Fatal(err)
	}
	return hosttest.World{
		People: &people{client, cfg.Organization, user, token},
		Start:  func() hosttest.Host { return New(cfg) },
		At: func(url string) hosttest.Host {
			cfg := cfg
			cfg.URL = url
			return New(cfg)
		},
		Key: string(key),
		Sign: func(r *http.Request, body []byte, secret string) {
			sum := hmac.New(sha256.New, []byte(secret))
			sum.Write(body)
			r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	g := fake.New(t)
	hosttest.Run(t, world(t, onFake(g), g.Person, g.PersonToken))
}

// people implements hosttest.People.
type people struct {
	api              *sdk.Client
	org, user, token string
}

func must[T any](t *testing.T) func(T, *sdk.Response, error) T {
	t.Helper()
	return func(out T, _ *sdk.Response, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var all = sdk.ListOptions{PerPage: 100}

func (p *people) Credential() (username, password string) { return p.user, p.token }

func (p *people) rulesets(t *testing.T, id string) []*sdk.RepositoryRuleset {
	return must[[]*sdk.RepositoryRuleset](t)(p.api.Repositories.GetAllRulesets(t.Context(), p.org, id, &sdk.RepositoryListRulesetsOptions{IncludesParents: new(false)}))
}

func (p *people) hooks(t *testing.T, id string) []*sdk.Hook {
	return must[[]*sdk.Hook](t)(p.api.Repositories.ListHooks(t.Context(), p.org, id, &all))
}

func (p *people) Surroundings(t *testing.T, id string) int {
	return len(p.rulesets(t, id)) + len(p.hooks(t, id))
}

func (p *people) Loosen(t *testing.T, id string) {
	for _, r := range p.rulesets(t, id) {
		_, err := p.api.Repositories.DeleteRuleset(t.Context(), p.org, id, r.GetID())
		done(t, err)
	}
	for _, h := range p.hooks(t, id) {
		_, err := p.api.Repositories.DeleteHook(t.Context(), p.org, id, h.GetID())
		done(t, err)
	}
}

func (p *people) Propose(t *testing.T, id, branch, title string) int64 {
	return int64(must[*sdk.PullRequest](t)(p.api.PullRequests.Create(t.Context(), p.org, id, sdk.CreatePullRequest{Head: branch, Base: "main", Title: &title})).GetNumber())
}

func (p *people) Close(t *testing.T, id string, number int64) {
	must[*sdk.PullRequest](t)(p.api.PullRequests.Edit(t.Context(), p.org, id, int(number), &sdk.PullRequest{State: new("closed")}))
}

func (p *people) Pulls(t *testing.T, id string) []pulls.Pull {
	var out []pulls.Pull
	for _, pull := range must[[]*sdk.PullRequest](t)(p.api.PullRequests.List(t.Context(), p.org, id, &sdk.PullRequestListOptions{State: "all", ListOptions: all})) {
		out = append(out, pulls.Pull{Number: int64(pull.GetNumber()), Page: pull.GetHTMLURL(), Body: pull.GetBody(), Open: pull.GetState() == "open"})
	}
	return out
}

func (p *people) Comment(t *testing.T, id string, number int64, text string) {
	must[*sdk.IssueComment](t)(p.api.Issues.CreateComment(t.Context(), p.org, id, int(number), sdk.IssueCommentRequest{Body: text}))
}

func (p *people) Comments(t *testing.T, id string, number int64) []string {
	var out []string
	for _, c := range must[[]*sdk.IssueComment](t)(p.api.Issues.ListComments(t.Context(), p.org, id, int(number), &sdk.IssueListCommentsOptions{ListOptions: all})) {
		out = append(out, c.GetBody())
	}
	return out
}

func (p *people) Shown(t *testing.T, id, commit string) []githost.Check {
	var out []githost.Check
	runs := must[*sdk.ListCheckRunsResults](t)(p.api.Checks.ListCheckRunsForRef(t.Context(), p.org, id, commit, &sdk.ListCheckRunsOptions{CheckName: new("gitbind")}))
	for _, r := range runs.CheckRuns {
		out = append(out, githost.Check{OK: r.GetConclusion() == "success", Pending: r.GetStatus() == "in_progress", Words: r.GetOutput().GetTitle(), URL: r.GetDetailsURL()})
	}
	return out
}

func (p *people) Rename(t *testing.T, id, to string) {
	must[*sdk.Repository](t)(p.api.Repositories.Edit(t.Context(), p.org, id, &sdk.Repository{Name: &to}))
}

func (p *people) Archive(t *testing.T, id string) {
	must[*sdk.Repository](t)(p.api.Repositories.Edit(t.Context(), p.org, id, &sdk.Repository{Archived: new(true)}))
}

func (p *people) Delete(t *testing.T, id string) {
	answer, err := p.api.Repositories.Delete(context.Background(), p.org, id)
	if status(answer) != http.StatusNotFound && status(answer) != http.StatusMovedPermanently {
		done(t, err)
	}
}

func TestWhereTheAPIIs(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"https://github.com":          "https://api.github.com/",
		"https://acme.ghe.com":        "https://api.acme.ghe.com/",
		"https://github.example.com":  "https://github.example.com/api/v3/",
		"https://notgithub.com":       "https://notgithub.com/api/v3/",
		"https://github.com.evil.com": "https://github.com.evil.com/api/v3/",
	} {
		if got := apiURL(host); got != want || !strings.HasSuffix(got, "/") {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}
