// Package gitlab keeps clusters' repositories on gitlab.com or a company's own GitLab: one
// private project for each cluster, in one group. Each credential of an agent is a project
// access token, which opens this one repository and none of the host's API.
//
// What the host enforces by its own means, and what it cannot, is in docs/hosts.md. It was
// written from GitLab's documentation, and tested with a fake.
package gitlab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	// Group is the full path of the group that has the projects, such as company/services. It
	// must be there.
	Group string
	// Token reads a personal access token with the scope api, of an account with the role
	// Maintainer or Owner in the group. Tokens of projects and groups cannot make tokens.
	Token func() (string, error)
	// Hooks is the URL below which Webhook is reached; the cluster's id follows it.
	Hooks string
	// Approvals is how many others must approve a merge request, where the host's tier knows
	// that.
	Approvals int
	Log       *slog.Logger
	// Observer is told of what its API is asked; nil for nobody.
	Observer client.Observer
}

// Host is that GitLab.
type Host struct {
	pulls.Requests
	cfg  Config
	http *http.Client
	// hooks takes what the host tells.
	hooks webhook.Receiver
	// noApprovals has the clusters of which it was said that their projects require none.
	noApprovals sync.Map
	// warned is in how many days the token was said to end last, and one more.
	warned atomic.Int64
}

var (
	_ githost.Accounts = (*Host)(nil)
	_ githost.Checks   = (*Host)(nil)
)

// account is what the observer knows the token's account by.
const account = "backend"

// New asks the host for nothing yet.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg, http: client.New(cfg.URL, account, cfg.Observer), hooks: webhook.Receiver{Key: cfg.Token, Signed: hasToken}}
	h.Requests = pulls.Requests{
		Of:  func(_ context.Context, id string) (pulls.Repository, error) { return h.merges(id), nil },
		Ref: "refs/merge-requests/%d/head",
	}
	return h
}

// path is that of a cluster's project, as people see it.
func (h *Host) path(id string) string { return h.cfg.Group + "/" + id }

// Page implements githost.Accounts.
func (h *Host) Page(id string) string { return h.cfg.URL + "/" + h.path(id) }

// URL implements githost.Host.
func (h *Host) URL(id string) string { return h.Page(id) + ".git" }

// Remote is where a cluster's repository is read, with a credential that opens all.
func (h *Host) Remote(_ context.Context, id string) (url, username, password string, err error) {
	token, err := h.cfg.Token()
	return h.URL(id), "gitbind", token, err
}

// Ready tells whether the host answers, shows the group, and takes the token for all that is asked.
func (h *Host) Ready(ctx context.Context) error {
	if _, err := h.group(ctx); err != nil {
		return err
	}
	var self struct {
		Scopes  []string `json:"scopes"`
		Expires string   `json:"expires_at"`
	}
	err := h.get(ctx, "/personal_access_tokens/self", &self)
	switch {
	case isNotFound(err):
		return nil // It does not tell.
	case err == nil && !slices.Contains(self.Scopes, "api"):
		err = fmt.Errorf("%w (the token lacks the scope api)", githost.ErrCredential)
	}
	if err != nil {
		return trouble("look at the token", err)
	}
	// It ends when that day begins; without one it does not.
	expires, _ := time.Parse(time.DateOnly, self.Expires)
	h.tellExpiry(expires)
	return nil
}

// warnBefore is how long before the token ends that is said. GitLab does not tell a service account.
const warnBefore = 30 * 24 * time.Hour

// tellExpiry tells when the token ends, and once a day before it does.
func (h *Host) tellExpiry(at time.Time) {
	if h.cfg.Observer != nil {
		h.cfg.Observer.Expires(account, at)
	}
	left := time.Until(at)
	if at.IsZero() || left > warnBefore {
		return
	}
	if days := int64(left / (24 * time.Hour)); h.warned.Swap(days+1) != days+1 {
		h.cfg.Log.Warn("GitLab ends the backend's token: give it the next one before", "at", at.Format(time.DateOnly))
	}
}

// group is the ID of the group.
func (h *Host) group(ctx context.Context) (int, error) {
	var g struct {
		ID int `json:"id"`
	}
	err := h.get(ctx, "/groups/"+url.PathEscape(h.cfg.Group)+"?with_projects=false", &g)
	if isNotFound(err) {
		err = fmt.Errorf("%w (it shows no group %s)", githost.ErrCredential, h.cfg.Group)
	}
	return g.ID, trouble("look for the group "+h.cfg.Group, err)
}

// project is what is asked of one.
type project struct {
	ID       int       `json:"id"`
	Path     string    `json:"path_with_namespace"`
	Created  time.Time `json:"created_at"`
	Archived bool      `json:"archived"`
	// Deleted is the date on which it was marked for that, "" if it was not.
	Deleted string `json:"marked_for_deletion_on"`
}

// setupTime is how long after a project was made its rules are the backend's to decide. The
// host makes some itself, in the background.
const setupTime = 10 * time.Minute

func (p *project) isNew() bool { return time.Since(p.Created) < setupTime }

// Exists implements githost.Host. Of one that cannot be used it says why.
func (h *Host) Exists(ctx context.Context, id string) (bool, error) {
	p, err := h.find(ctx, id)
	return p != nil, err
}

// find gives a cluster's project, nil if there is none. One that is there can be used.
func (h *Host) find(ctx context.Context, id string) (*project, error) {
	var p project
	err := h.get(ctx, h.project(id), &p)
	if moved := new(refusal); errors.As(err, &moved) && moved.status == http.StatusMovedPermanently {
		// It leads to the project by its ID.
		err = h.get(ctx, "/projects/"+path.Base(moved.location), &p)
	}
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
	case p.Deleted != "":
		err = githost.ErrMarkedForDeletion
	case p.Path != h.path(id):
		err = fmt.Errorf("%w (it is %s now)", githost.ErrRenamed, p.Path)
	case p.Archived:
		err = githost.ErrArchived
	}
	if err != nil {
		return nil, trouble("look for the project "+h.path(id), err)
	}
	return &p, nil
}

// Create implements githost.Host. It also makes what is missing of a project that is there,
// such as a rule that somebody removed; what is there it leaves as it is.
func (h *Host) Create(ctx context.Context, id string) error {
	if !v1alpha1.ValidClusterID(id) {
		return fmt.Errorf("%q is no repository id", id)
	}
	p, err := h.find(ctx, id)
	if err == nil && p == nil {
		p, err = h.create(ctx, id, true)
	}
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context, string, *project) error
	}{
		{"protected branches", h.protect},
		{"approvals", h.approvals},
		{"webhook", h.hook},
	} {
		if err := step.do(ctx, id, p); err != nil {
			return trouble(fmt.Sprintf("set up %s of %s", step.what, h.path(id)), err)
		}
	}
	return nil
}

// CreateEmpty implements githost.Accounts.
func (h *Host) CreateEmpty(ctx context.Context, id string) error {
	p, err := h.find(ctx, id)
	if err == nil && p == nil {
		_, err = h.create(ctx, id, false)
	}
	return err
}

// create makes a project, with a first commit on main or without.
func (h *Host) create(ctx context.Context, id string, begin bool) (*project, error) {
	group, err := h.group(ctx)
	if err != nil {
		return nil, err
	}
	var p project
	err = h.send(ctx, http.MethodPost, "/projects", map[string]any{
		"name": id, "path": id, "namespace_id": group, "visibility": "private", "default_branch": "main", "initialize_with_readme": begin,
		"description": "What cluster " + id + " ordered: bindings/<API>/claims/<namespace>/<name>.yaml on main, answers on status",
		// A squashed change hides which object it came from.
		"merge_method": "merge", "squash_option": "never",
		"remove_source_branch_after_merge": true,
		// Who pushes to main could have the group's runners run it, with the group's secrets.
		"auto_devops_enabled": false, "shared_runners_enabled": false, "group_runners_enabled": false,
	}, &p)
	return &p, trouble("make the project "+h.path(id), err)
}
