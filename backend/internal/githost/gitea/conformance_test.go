package gitea

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	sdk "code.gitea.io/sdk/gitea"
	"k8s.io/utils/ptr"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/hosttest"
	"gitbind.dev/backend/internal/githost/pulls"
	"gitbind.dev/test/env"
)

var onGitea = flag.Bool("gitea", false, "run TestConformance, on a Gitea, which is built first (6 minutes)")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	t.Parallel()
	if !*onGitea {
		t.Skip("needs a Gitea: make test-gitea")
	}
	e, err := env.Start(t.Context(), env.Options{Clusters: []string{}, Gitea: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	token, err := e.Gitea.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		URL: e.Gitea.URL, Organization: "gitbind", Token: func() (string, error) { return token, nil }, Hooks: "http://127.0.0.1:1/hooks/", Approvals: 1,
	}
	company := hire(t, e.Gitea)
	t.Run("an account that somebody else made is given nothing", func(t *testing.T) { company.squat(t, New(cfg)) })
	t.Run("a token that lost its rights says nothing of what is there", func(t *testing.T) { company.demote(t, e.Gitea, cfg) })
	hosttest.Run(t, hosttest.World{
		People: company,
		Start:  func() hosttest.Host { return New(cfg) },
		At: func(url string) hosttest.Host {
			cfg := cfg
			cfg.URL = url
			return New(cfg)
		},
		Key: token,
		Sign: func(r *http.Request, body []byte, secret string) {
			sum := hmac.New(sha256.New, []byte(secret))
			sum.Write(body)
			r.Header.Set("X-Gitea-Signature", hex.EncodeToString(sum.Sum(nil)))
		},
	})
}

// people implements hosttest.People: an operator, and Ada, who may write to all repositories.
type people struct {
	admin, ada *sdk.Client
}

const ada, password, org = "ada", "a-password-of-a-test", "gitbind"

func hire(t *testing.T, g *env.Gitea) *people {
	t.Helper()
	client := func(user, password string) *sdk.Client {
		c, err := sdk.NewClient(g.URL, sdk.SetGiteaVersion(""), sdk.SetBasicAuth(user, password))
		done(t, err)
		return c
	}
	p := &people{admin: client(g.User, g.Password), ada: client(ada, password)}
	must[*sdk.Organization](t)(p.admin.CreateOrg(sdk.CreateOrgOption{Name: org, Visibility: sdk.VisibleTypePrivate}))
	must[*sdk.User](t)(p.admin.AdminCreateUser(sdk.CreateUserOption{Username: ada, Email: "ada@example.org", Password: password, MustChangePassword: ptr.To(false)}))
	team := must[*sdk.Team](t)(p.admin.CreateTeam(org, sdk.CreateTeamOption{
		Name: "developers", Permission: sdk.AccessModeWrite, IncludesAllRepositories: true, Units: []sdk.RepoUnitType{sdk.RepoUnitCode, sdk.RepoUnitPulls},
	}))
	_, err := p.admin.AddTeamMember(team.ID, ada)
	done(t, err)
	return p
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

func (p *people) Credential() (string, string) { return ada, password }

func (p *people) rules(t *testing.T, id string) []*sdk.BranchProtection {
	return must[[]*sdk.BranchProtection](t)(p.admin.ListBranchProtections(org, id, sdk.ListBranchProtectionsOptions{}))
}

func (p *people) hooks(t *testing.T, id string) []*sdk.Hook {
	return must[[]*sdk.Hook](t)(p.admin.ListRepoHooks(org, id, sdk.ListHooksOptions{}))
}

func (p *people) Surroundings(t *testing.T, id string) int {
	return len(p.rules(t, id)) + len(p.hooks(t, id))
}

func (p *people) Loosen(t *testing.T, id string) {
	for _, r := range p.rules(t, id) {
		_, err := p.admin.DeleteBranchProtection(org, id, r.RuleName)
		done(t, err)
	}
	for _, h := range p.hooks(t, id) {
		_, err := p.admin.DeleteRepoHook(org, id, h.ID)
		done(t, err)
	}
}

func (p *people) Propose(t *testing.T, id, branch, title string) int64 {
	return must[*sdk.PullRequest](t)(p.ada.CreatePullRequest(org, id, sdk.CreatePullRequestOption{Head: branch, Base: "main", Title: title})).Index
}

func (p *people) Close(t *testing.T, id string, number int64) {
	must[*sdk.PullRequest](t)(p.ada.EditPullRequest(org, id, number, sdk.EditPullRequestOption{State: ptr.To(sdk.StateClosed)}))
}

// pages gives all of a list.
func pages[T any](t *testing.T, list func(sdk.ListOptions) ([]T, *sdk.Response, error)) []T {
	var all []T
	for n := 1; ; n++ {
		some := must[[]T](t)(list(options(pulls.Page{Number: n, Size: pulls.PageSize})))
		if all = append(all, some...); len(some) < pulls.PageSize {
			return all
		}
	}
}

func (p *people) Pulls(t *testing.T, id string) []pulls.Pull {
	var out []pulls.Pull
	for _, pull := range pages(t, func(o sdk.ListOptions) ([]*sdk.PullRequest, *sdk.Response, error) {
		return p.ada.ListRepoPullRequests(org, id, sdk.ListPullRequestsOptions{ListOptions: o, State: sdk.StateAll})
	}) {
		out = append(out, pulls.Pull{Number: pull.Index, Page: pull.HTMLURL, Body: pull.Body, Open: pull.State == sdk.StateOpen})
	}
	return out
}

func (p *people) Comment(t *testing.T, id string, number int64, text string) {
	must[*sdk.Comment](t)(p.ada.CreateIssueComment(org, id, number, sdk.CreateIssueCommentOption{Body: text}))
}

// Comments gives all, as Gitea does on each page of them.
func (p *people) Comments(t *testing.T, id string, number int64) []string {
	var out []string
	for _, c := range must[[]*sdk.Comment](t)(p.ada.ListIssueComments(org, id, number, sdk.ListIssueCommentOptions{})) {
		out = append(out, c.Body)
	}
	return out
}

// Shown gives the last status of each context, as the page of a commit does.
func (p *people) Shown(t *testing.T, id, commit string) []githost.Check {
	var out []githost.Check
	for _, s := range must[*sdk.CombinedStatus](t)(p.ada.GetCombinedStatus(org, id, commit)).Statuses {
		if s.Context == "gitbind" {
			out = append(out, githost.Check{OK: s.State == sdk.StatusSuccess, Pending: s.State == sdk.StatusPending, Words: s.Description, URL: s.TargetURL})
		}
	}
	return out
}

func (p *people) Rename(t *testing.T, id, to string) {
	must[*sdk.Repository](t)(p.admin.EditRepo(org, id, sdk.EditRepoOption{Name: &to}))
}

func (p *people) Archive(t *testing.T, id string) {
	must[*sdk.Repository](t)(p.admin.EditRepo(org, id, sdk.EditRepoOption{Archived: ptr.To(true)}))
}

func (p *people) Delete(t *testing.T, id string) {
	answer, err := p.admin.DeleteRepo(org, id)
	if !isNotFound(answer) {
		done(t, err)
	}
}

// TestWhatPeopleDidIsSaid has Gitea's answers about a repository that was renamed or archived.
func TestWhatPeopleDidIsSaid(t *testing.T) {
	t.Parallel()
	for want, answer := range map[error]http.HandlerFunc{
		githost.ErrRenamed: http.RedirectHandler("/api/v1/repositories/1", http.StatusTemporaryRedirect).ServeHTTP,
		githost.ErrArchived: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"id":1,"name":"k3x9d2abqw","archived":true}`)
		},
	} {
		host := New(Config{URL: serve(t, answer), Organization: org, Token: func() (string, error) { return "secret", nil }})
		if _, err := host.Exists(t.Context(), "k3x9d2abqw"); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// squat has accounts by the names of agents', as people register themselves where they may.
func (p *people) squat(t *testing.T, h *Host) {
	register := func(name, login string) {
		t.Helper()
		must[*sdk.User](t)(p.admin.AdminCreateUser(sdk.CreateUserOption{
			Username: name, LoginName: login, Email: name + "@example.org", Password: password, MustChangePassword: ptr.To(false),
		}))
	}
	for id, c := range map[string]struct {
		agent string
		// away is what a person does about it.
		away func(name string) (*sdk.Response, error)
	}{
		"squatted1": {konnector, p.admin.AdminDeleteUser},
		"squatted2": {bridge, func(name string) (*sdk.Response, error) {
			return p.admin.AdminRenameUser(name, sdk.RenameUserOption{NewUsername: "squatter"})
		}},
	} {
		name := account(c.agent, id)
		register(name, "")
		t.Cleanup(func() { p.Delete(t, id) })
		_, issue := h.Issue(t.Context(), id, c.agent, "n")
		for do, err := range map[string]error{
			"issue":  issue,
			"retain": h.Retain(t.Context(), id, c.agent, func(context.Context) ([]string, error) { return nil, nil }),
			"set up": h.Create(t.Context(), id),
		} {
			var taken *githost.AccountTakenError
			if !errors.As(err, &taken) || taken.Name != name {
				t.Errorf("%s of %s: %v", do, name, err)
			}
		}
		theirs, err := sdk.NewClient(h.cfg.URL, sdk.SetGiteaVersion(""), sdk.SetBasicAuth(name, password))
		done(t, err)
		if me, _, err := theirs.GetMyUserInfo(); err != nil || me.Restricted || me.LoginName != "" {
			t.Errorf("the account %s was changed: %+v, %v", name, me, err)
		}
		if tokens, _, err := theirs.ListAccessTokens(sdk.ListAccessTokensOptions{}); err != nil || len(tokens) > 0 {
			t.Errorf("the account %s has %d tokens: %v", name, len(tokens), err)
		}
		if _, answer, _ := theirs.GetRepo(org, id); !isNotFound(answer) {
			t.Errorf("the account %s sees the repository: %d", name, status(answer))
		}
		_, err = c.away(name)
		done(t, err)
		done(t, h.Create(t.Context(), id))
		_, err = h.Issue(t.Context(), id, c.agent, "n")
		done(t, err)
		// The repository is lost, and the accounts are not.
		p.Delete(t, id)
		done(t, h.Create(t.Context(), id))
	}
	// A set-up that was cut off after the first request of it.
	register(account(konnector, "squatted3"), account(konnector, "squatted3"))
	t.Cleanup(func() { p.Delete(t, "squatted3") })
	done(t, h.Create(t.Context(), "squatted3"))
}

// demote has a token of an account that is no administrator any more.
func (p *people) demote(t *testing.T, g *env.Gitea, cfg Config) {
	const id, operator = "demoted", "another-operator"
	done(t, New(cfg).Create(t.Context(), id))
	t.Cleanup(func() { p.Delete(t, id) })
	must[*sdk.User](t)(p.admin.AdminCreateUser(sdk.CreateUserOption{Username: operator, Email: "another@example.org", Password: password, MustChangePassword: ptr.To(false)}))
	be := func(admin bool) {
		_, err := p.admin.AdminEditUser(operator, sdk.EditUserOption{LoginName: operator, Admin: &admin})
		done(t, err)
	}
	be(true)
	other := *g
	other.User, other.Password = operator, password
	token, err := other.Token(t.Context())
	done(t, err)
	cfg.Token = func() (string, error) { return token, nil }
	later := cfg
	later.Organization = "not-made-yet"
	for _, h := range []*Host{New(cfg), New(later)} {
		be(true)
		done(t, h.Ready(t.Context()))
		be(false)
		if there, err := h.Exists(t.Context(), id); there || err != nil {
			t.Fatalf("the host hides nothing: %t, %v", there, err)
		}
		if err := h.Ready(t.Context()); !errors.Is(err, githost.ErrCredential) || !strings.Contains(err.Error(), operator) {
			t.Errorf("ready: %v", err)
		}
	}
}
