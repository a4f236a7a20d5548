// Package github keeps clusters' repositories on github.com or a GitHub Enterprise Server:
// one private repository for each cluster, in one organization. Two GitHub Apps are installed
// there, one for the backend and the bridges, one for the konnectors, so that rulesets can
// tell these apart. Agents get tokens of them that open one repository, for an hour.
//
// What the host enforces by its own means, and what it cannot, is in docs/hosts.md.
package github

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	sdk "github.com/google/go-github/v93/github"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/client"
	"gitbind.dev/backend/internal/githost/pulls"
	"gitbind.dev/backend/internal/githost/webhook"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Config says which host, and how it is reached.
type Config struct {
	// URL is the host's, as a browser shows it, without a slash at its end.
	URL string
	// Organization has the repositories.
	Organization string
	// Backend is the App of the backend and the bridges, with the rights of backendRights, and
	// Konnector that of the konnectors, with those of konnectorRights.
	Backend, Konnector App
	// Hooks is the URL below which Webhook is reached; the cluster's id follows it.
	Hooks string
	// Approvals is how many others must approve a pull request before it can be merged.
	Approvals int
	// Observer is told of what its API is asked; nil for nobody.
	Observer client.Observer
	// Now is for tests; nil means time.Now.
	Now func() time.Time
}

// The rights that the Apps need, by what GitHub calls them.
var (
	backendRights = sdk.InstallationPermissions{
		Administration: new("write"), Checks: new("write"), Contents: new("write"), Metadata: new("read"),
		PullRequests: new("write"), RepositoryHooks: new("write"),
	}
	konnectorRights = sdk.InstallationPermissions{Contents: new("write"), Metadata: new("read")}
)

// Host is that GitHub.
type Host struct {
	pulls.Requests
	cfg                Config
	backend, konnector *app
	// hooks takes what the host tells.
	hooks  webhook.Receiver
	issued issued

	mu sync.Mutex
	// made is when what surrounds a repository was looked at last.
	made map[string]time.Time
}

var (
	_ githost.Accounts = (*Host)(nil)
	_ githost.Checks   = (*Host)(nil)
)

// New asks the host for nothing yet.
func New(cfg Config) *Host {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	api := apiURL(cfg.URL)
	sign := func(a App, name string) *app {
		// Each App has a rate limit of its own, and its installation another one.
		installed := client.New(api, name+"-installation", cfg.Observer)
		made := &young{base: installed.Transport, now: cfg.Now}
		installed.Transport = made
		return &app{App: a, organization: cfg.Organization, api: api, own: client.New(api, name, cfg.Observer), installed: installed, made: made, now: cfg.Now}
	}
	h := &Host{cfg: cfg, backend: sign(cfg.Backend, "backend"), konnector: sign(cfg.Konnector, "konnector"), made: map[string]time.Time{}}
	h.hooks = webhook.Receiver{
		Key:    func() (string, error) { key, err := cfg.Backend.Key(); return string(key), err },
		Signed: webhook.HMAC("X-Hub-Signature-256"),
	}
	h.Requests = pulls.Requests{
		Of:  func(ctx context.Context, id string) (pulls.Repository, error) { return h.pulls(ctx, id) },
		Ref: "refs/pull/%d/head",
	}
	return h
}

// apiURL is where the API of a host is.
func apiURL(host string) string {
	u, err := url.Parse(host)
	switch {
	case err != nil:
		return host
	case u.Host == "github.com", strings.HasSuffix(u.Host, ".ghe.com"):
		return u.Scheme + "://api." + u.Host + "/"
	}
	return host + "/api/v3/"
}

// URL implements githost.Host.
func (h *Host) URL(id string) string { return h.Page(id) + ".git" }

// Page implements githost.Accounts.
func (h *Host) Page(id string) string {
	return h.cfg.URL + "/" + url.PathEscape(h.cfg.Organization) + "/" + id
}

// Remote is where a cluster's repository is read, with a credential that opens all.
func (h *Host) Remote(ctx context.Context, id string) (url, username, password string, err error) {
	token, err := h.backend.adminToken(ctx)
	return h.URL(id), tokenUser, token, err
}

// Webhook takes what the host tells of a repository: see webhook.Receiver.Handler.
func (h *Host) Webhook(log *slog.Logger, moved func(cluster string)) http.Handler {
	return h.hooks.Handler(log, moved)
}

// Exists implements githost.Host.
func (h *Host) Exists(ctx context.Context, id string) (bool, error) {
	api, err := h.backend.asAdmin(ctx)
	if err != nil {
		return false, err
	}
	repository, err := h.get(ctx, api, id)
	return repository != nil, err
}

// get gives nil if there is no such repository.
func (h *Host) get(ctx context.Context, api *sdk.Client, id string) (*sdk.Repository, error) {
	repository, answer, err := api.Repositories.Get(ctx, h.cfg.Organization, id)
	switch {
	case status(answer) == http.StatusNotFound:
		h.setMade(id, time.Time{})
		return nil, nil
	case err != nil:
		return nil, h.backend.trouble("look for repository "+id, err)
	case repository.GetArchived():
		return nil, fmt.Errorf("github: repository %s: %w", id, githost.ErrArchived)
	}
	return repository, nil
}

// Ready tells whether the host answers, and both Apps are installed as they must be.
func (h *Host) Ready(ctx context.Context) error {
	for _, a := range []struct {
		*app
		rights sdk.InstallationPermissions
	}{{h.backend, backendRights}, {h.konnector, konnectorRights}} {
		found, err := a.find(ctx)
		if err != nil {
			return err
		}
		if lacks := lacking(a.rights, found.GetPermissions()); lacks != "" {
			return fmt.Errorf("%w (App %d lacks %s)", githost.ErrCredential, a.ID, lacks)
		}
		if found.GetRepositorySelection() != "all" {
			return fmt.Errorf("%w (App %d is installed on selected repositories only: it must be on all, those to come as well)", githost.ErrCredential, a.ID)
		}
	}
	return nil
}

// lacking names the first right that is not given.
func lacking(want sdk.InstallationPermissions, given *sdk.InstallationPermissions) string {
	if given == nil {
		given = &sdk.InstallationPermissions{}
	}
	wanted, has := reflect.ValueOf(want), reflect.ValueOf(*given)
	for i := range wanted.NumField() {
		w, ok := wanted.Field(i).Interface().(*string)
		if !ok || w == nil {
			continue
		}
		if g, _ := has.Field(i).Interface().(*string); g == nil || *w == "write" && *g == "read" {
			name, _, _ := strings.Cut(wanted.Type().Field(i).Tag.Get("json"), ",")
			return name + ": " + *w
		}
	}
	return ""
}

// lookEvery is how often to see whether somebody removed what surrounds a repository: it
// takes several requests of an App's rate limit.
const lookEvery = 6 * time.Hour

func (h *Host) setMade(id string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made[id] = at
	// Nobody says that a cluster is gone.
	maps.DeleteFunc(h.made, func(_ string, at time.Time) bool { return !h.lately(at) })
}

func (h *Host) lately(at time.Time) bool { return !at.IsZero() && h.cfg.Now().Sub(at) < lookEvery }

func (h *Host) madeLately(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lately(h.made[id])
}

// Create implements githost.Host. It also makes what is missing of a repository that is
// there, such as a ruleset that somebody removed; what is there it leaves as it is.
func (h *Host) Create(ctx context.Context, id string) error {
	if !v1alpha1.ValidClusterID(id) {
		return fmt.Errorf("%q is no repository id", id)
	}
	if h.madeLately(id) {
		return nil
	}
	api, err := h.backend.asAdmin(ctx)
	if err != nil {
		return err
	}
	for _, do := range []func(context.Context, *sdk.Client, string) error{h.repository, h.rulesets, h.hook} {
		if err := do(ctx, api, id); err != nil {
			return err
		}
	}
	h.setMade(id, h.cfg.Now())
	return nil
}

// CreateEmpty implements githost.Accounts.
func (h *Host) CreateEmpty(ctx context.Context, id string) error {
	api, err := h.backend.asAdmin(ctx)
	if err != nil {
		return err
	}
	if repository, err := h.get(ctx, api, id); err != nil || repository != nil {
		return err
	}
	_, err = h.makeRepository(ctx, api, id, false)
	return err
}

// makeRepository makes one that is not there, with a first commit or without.
func (h *Host) makeRepository(ctx context.Context, api *sdk.Client, id string, begin bool) (*sdk.Repository, error) {
	made, _, err := api.Repositories.Create(ctx, h.cfg.Organization, sdk.CreateRepositoryRequest{
		Name: id, Private: new(true), AutoInit: &begin, HasWiki: new(false), HasProjects: new(false),
		// A squashed or rebased commit hides which object a change came from.
		AllowSquashMerge: new(false), AllowRebaseMerge: new(false),
		Description: new("What cluster " + id + " ordered: bindings/<API>/claims/<namespace>/<name>.yaml on main, answers on status"),
	})
	return made, h.backend.trouble("create repository "+id, err)
}

func (h *Host) repository(ctx context.Context, api *sdk.Client, id string) error {
	repository, err := h.get(ctx, api, id)
	if err != nil {
		return err
	}
	created := repository == nil
	if created {
		if repository, err = h.makeRepository(ctx, api, id, true); err != nil {
			return err
		}
	}
	first := repository.GetDefaultBranch()
	if first == "" || first == "main" {
		return nil
	}
	if !created {
		// People may have another one for their default beside main.
		_, answer, err := api.Git.GetRef(ctx, h.cfg.Organization, id, "heads/main")
		if status(answer) != http.StatusNotFound {
			return h.backend.trouble("look for the branch main of "+id, err)
		}
	}
	// The organization says what the first branch of its repositories is called.
	_, _, err = api.Repositories.RenameBranch(ctx, h.cfg.Organization, id, first, "main")
	return h.backend.trouble("name the first branch of "+id, err)
}

// hook has the host tell of pushes. One that is there is written if its secret may be another:
// GitHub takes few changes at once, and the backend looks at all of them when it starts.
func (h *Host) hook(ctx context.Context, api *sdk.Client, id string) error {
	secret, err := h.hooks.Secret(id)
	if err != nil {
		return err
	}
	address, err := h.hooks.URL(h.cfg.Hooks, id)
	if err != nil {
		return err
	}
	want := &sdk.Hook{
		Active: new(true), Events: []string{"push", "create", "delete", "pull_request"},
		Config: &sdk.HookConfig{URL: &address, ContentType: new("json"), Secret: &secret, InsecureSSL: new("0")},
	}
	hooks, _, err := api.Repositories.ListHooks(ctx, h.cfg.Organization, id, &sdk.ListOptions{PerPage: maxPage})
	if err != nil {
		return h.backend.trouble("list the webhooks of "+id, err)
	}
	for _, hook := range hooks {
		there := hook.GetConfig().GetURL()
		if there == address {
			return nil
		}
		if path, _, _ := strings.Cut(there, "?"); path == h.cfg.Hooks+id {
			_, _, err = api.Repositories.EditHook(ctx, h.cfg.Organization, id, hook.GetID(), want)
			return h.backend.trouble("write the webhook of "+id, err)
		}
	}
	_, _, err = api.Repositories.CreateHook(ctx, h.cfg.Organization, id, want)
	return h.backend.trouble("make the webhook of "+id, err)
}

// maxPage is how long GitHub lets a page be.
const maxPage = 100
