// Package gitea keeps clusters' repositories on a company's own Gitea or Forgejo: one
// private repository for each cluster, below one organization. Each agent has an account
// there that opens this one repository, and tokens of it that only reach repositories.
//
// What the host enforces by its own means, and what it cannot, is in docs/hosts.md.
package gitea

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	sdk "code.gitea.io/sdk/gitea"
	"k8s.io/utils/lru"

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
	// Organization has the repositories. It is made if it is not there.
	Organization string
	// Token reads an access token of a site administrator, with the scopes write:admin,
	// write:issue, write:organization, write:repository and write:user.
	Token func() (string, error)
	// Hooks is the URL below which Webhook is reached; the cluster's id follows it.
	Hooks string
	// Approvals is how many others must approve a pull request before it can be merged.
	Approvals int
	// Observer is told of what its API is asked; nil for nobody.
	Observer client.Observer
}

// Host is that Gitea.
type Host struct {
	pulls.Requests
	cfg  Config
	http *http.Client
	// hooks takes what the host tells.
	hooks webhook.Receiver
	// accounts has a channel for each agent's account, which has room for who acts as it: the
	// next password ends the one before.
	accounts sync.Map
	// said has our comment on a pull request, by cluster and number, of those that this process
	// has written or looked for last: the host gives all comments at once, which may be too much to
	// be read.
	said *lru.Cache
}

// maxSaid bounds how many comments are kept. Of one that is not, all are read; it is written once
// more if they are too many.
const maxSaid = 10_000

var (
	_ githost.Accounts = (*Host)(nil)
	_ githost.Checks   = (*Host)(nil)
)

// New asks the host for nothing yet.
func New(cfg Config) *Host {
	h := &Host{
		cfg: cfg, http: client.New(cfg.URL, "backend", cfg.Observer),
		hooks: webhook.Receiver{Key: cfg.Token, Signed: webhook.HMAC("X-Gitea-Signature")}, said: lru.New(maxSaid),
	}
	h.Requests = pulls.Requests{
		Of:  func(ctx context.Context, id string) (pulls.Repository, error) { return h.pulls(ctx, id) },
		Ref: "refs/pull/%d/head",
	}
	return h
}

// api is a client of the host's API, for one task. It does not ask for the host's version,
// which the library cannot read of every build.
func (h *Host) api(ctx context.Context, as sdk.ClientOption) (*sdk.Client, error) {
	return sdk.NewClient(h.cfg.URL, sdk.SetContext(ctx), sdk.SetHTTPClient(h.http), sdk.SetGiteaVersion(""), as)
}

// admin is a client with the administrator's token.
func (h *Host) admin(ctx context.Context) (*sdk.Client, error) {
	token, err := h.cfg.Token()
	if err != nil {
		return nil, fmt.Errorf("read the token for %s: %w", h.cfg.URL, err)
	}
	return h.api(ctx, sdk.SetToken(token))
}

// URL implements githost.Host.
func (h *Host) URL(id string) string {
	return h.cfg.URL + "/" + url.PathEscape(h.cfg.Organization) + "/" + id + ".git"
}

// Page implements githost.Accounts.
func (h *Host) Page(id string) string { return strings.TrimSuffix(h.URL(id), ".git") }

// Remote is where a cluster's repository is read, with a credential that opens all.
func (h *Host) Remote(_ context.Context, id string) (url, username, password string, err error) {
	token, err := h.cfg.Token()
	return h.URL(id), "gitbind", token, err
}

// Exists implements githost.Host.
func (h *Host) Exists(ctx context.Context, id string) (bool, error) {
	api, err := h.admin(ctx)
	if err != nil {
		return false, err
	}
	found, answer, err := h.get(api, id)
	return found, trouble("look for repository "+id, answer, err)
}

// get tells whether a repository is there and usable.
func (h *Host) get(api *sdk.Client, id string) (bool, *sdk.Response, error) {
	repository, answer, err := api.GetRepo(h.cfg.Organization, id)
	switch {
	case isNotFound(answer):
		return false, nil, nil
	case status(answer)/100 == 3:
		to, _ := answer.Location()
		return false, nil, client.Redirected(answer.Request.URL, to)
	case err == nil && repository.Archived:
		return false, nil, githost.ErrArchived
	}
	return err == nil, answer, err
}

// Ready tells whether the host answers, takes the token and hides nothing from it: of what others
// than a site administrator may not see, it says that it is not there.
func (h *Host) Ready(ctx context.Context) error {
	api, err := h.admin(ctx)
	if err != nil {
		return err
	}
	me, answer, err := api.GetMyUserInfo()
	if err == nil && !me.IsAdmin {
		err = fmt.Errorf("%w (the token's account, %s, is no site administrator)", githost.ErrCredential, me.UserName)
	}
	if err != nil {
		return trouble("sign in", answer, err)
	}
	_, answer, err = api.GetOrg(h.cfg.Organization)
	if isNotFound(answer) {
		return nil // It is made with the first repository.
	}
	return trouble("look for the organization "+h.cfg.Organization, answer, err)
}

// Create implements githost.Host. It also makes what is missing of a repository that is
// there, such as a rule that somebody removed; what is there it leaves as it is.
func (h *Host) Create(ctx context.Context, id string) error {
	if !v1alpha1.ValidClusterID(id) {
		return fmt.Errorf("%q is no repository id", id)
	}
	api, err := h.admin(ctx)
	if err != nil {
		return err
	}
	return h.setUp(ctx, api, id, []part{
		{"organization " + h.cfg.Organization, h.organization},
		{"accounts", h.makeAccounts},
		{"repository", h.repository},
		{"collaborators", h.collaborators},
		{"branch protection", h.protections},
		{"webhook", h.hook},
	})
}

// CreateEmpty implements githost.Accounts.
func (h *Host) CreateEmpty(ctx context.Context, id string) error {
	api, err := h.admin(ctx)
	if err != nil {
		return err
	}
	return h.setUp(ctx, api, id, []part{
		{"organization " + h.cfg.Organization, h.organization},
		{"repository", func(_ context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
			return h.makeRepository(api, id, false)
		}},
	})
}

// part is one of what makes up a cluster's repository.
type part struct {
	what string
	make func(context.Context, *sdk.Client, string) (*sdk.Response, error)
}

func (h *Host) setUp(ctx context.Context, api *sdk.Client, id string, parts []part) error {
	for _, p := range parts {
		if answer, err := p.make(ctx, api, id); err != nil {
			return trouble(fmt.Sprintf("set up %s of %s", p.what, id), answer, err)
		}
	}
	return nil
}

func (h *Host) organization(_ context.Context, api *sdk.Client, _ string) (*sdk.Response, error) {
	_, answer, err := api.GetOrg(h.cfg.Organization)
	if isNotFound(answer) {
		_, answer, err = api.CreateOrg(sdk.CreateOrgOption{
			Name: h.cfg.Organization, Visibility: sdk.VisibleTypePrivate,
			Description: "Services that clusters ordered by gitbind",
		})
	}
	return answer, err
}

func (h *Host) repository(_ context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
	return h.makeRepository(api, id, true)
}

// makeRepository makes one that is not there, with a first commit or without.
func (h *Host) makeRepository(api *sdk.Client, id string, begin bool) (*sdk.Response, error) {
	found, answer, err := h.get(api, id)
	if !found && err == nil {
		_, answer, err = api.CreateOrgRepo(h.cfg.Organization, sdk.CreateRepoOption{
			Name: id, Private: true, AutoInit: begin, DefaultBranch: "main", ObjectFormatName: "sha1",
			Description: "What cluster " + id + " ordered: bindings/<API>/claims/<namespace>/<name>.yaml on main, answers on status",
		})
	}
	return answer, err
}

func (h *Host) collaborators(_ context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
	write := sdk.AccessModeWrite
	for _, agent := range agents {
		if answer, err := api.AddCollaborator(h.cfg.Organization, id, account(agent, id), sdk.AddCollaboratorOption{Permission: &write}); err != nil {
			return answer, err
		}
	}
	return nil, nil
}

// protection has what the library's does not have. Hosts leave alone what they do not know: Forgejo has
// no word for forced pushes to a protected branch.
type protection struct {
	sdk.CreateBranchProtectionOption
	// ApplyToAdmins is Forgejo's word for BlockAdminMergeOverride.
	ApplyToAdmins               bool     `json:"apply_to_admins"`
	EnableForcePush             bool     `json:"enable_force_push"`
	EnableForcePushAllowlist    bool     `json:"enable_force_push_allowlist"`
	ForcePushAllowlistUsernames []string `json:"force_push_allowlist_usernames"`
}

// rules are those of the two branches of the contract. Pushes to main are the konnector's,
// and everybody else's changes are pull requests. Status is the bridge's alone, which cuts
// its history where the host lets it.
func (h *Host) rules(id string) []protection {
	konnector, bridge := []string{account(konnector, id)}, []string{account(bridge, id)}
	return []protection{
		{CreateBranchProtectionOption: sdk.CreateBranchProtectionOption{
			RuleName: "main", EnablePush: true, EnablePushWhitelist: true, PushWhitelistUsernames: konnector,
			RequiredApprovals: int64(h.cfg.Approvals), BlockOnRejectedReviews: true, DismissStaleApprovals: true, BlockAdminMergeOverride: true,
		}, ApplyToAdmins: true},
		{CreateBranchProtectionOption: sdk.CreateBranchProtectionOption{
			RuleName: "status", EnablePush: true, EnablePushWhitelist: true, PushWhitelistUsernames: bridge,
			EnableMergeWhitelist: true, MergeWhitelistUsernames: bridge, BlockAdminMergeOverride: true,
		}, ApplyToAdmins: true, EnableForcePush: true, EnableForcePushAllowlist: true, ForcePushAllowlistUsernames: bridge},
	}
}

func (h *Host) protections(ctx context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
	for _, rule := range h.rules(id) {
		_, answer, err := api.GetBranchProtection(h.cfg.Organization, id, rule.RuleName)
		if isNotFound(answer) {
			err = h.post(ctx, "/repos/"+url.PathEscape(h.cfg.Organization)+"/"+id+"/branch_protections", rule)
		}
		if err != nil {
			return answer, err
		}
	}
	return nil, nil
}

// post is for what the library has no word for.
func (h *Host) post(ctx context.Context, path string, body any) error {
	token, err := h.cfg.Token()
	if err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.URL+"/api/v1"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "token "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := h.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("%s: %s", answer.Status, bytes.TrimSpace(text))
	}
	return nil
}

func isNotFound(r *sdk.Response) bool { return status(r) == http.StatusNotFound }

func status(r *sdk.Response) int {
	if r == nil || r.Response == nil {
		return 0
	}
	return r.StatusCode
}

// trouble says what could not be done, and why if that is the operator's to mend.
func trouble(what string, answer *sdk.Response, err error) error {
	if err == nil {
		return nil
	}
	if code := status(answer); code == http.StatusUnauthorized || code == http.StatusForbidden {
		err = fmt.Errorf("%w (%s)", githost.ErrCredential, strings.TrimSpace(err.Error()))
	}
	return fmt.Errorf("gitea: %s: %w", what, err)
}
