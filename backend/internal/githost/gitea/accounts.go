package gitea

import (
	"context"
	"errors"
	"fmt"
	"slices"

	sdk "code.gitea.io/sdk/gitea"
	"k8s.io/utils/ptr"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/client"
	"gitbind.dev/gitbridge/contract"
)

const (
	konnector = credential.KonnectorUser
	bridge    = credential.BridgeUser
)

var agents = []string{konnector, bridge}

// maxAccount is how long the host lets a name be.
const maxAccount = 40

// account is the name of an agent's account.
func account(agent, id string) string { return "gitbind-" + agent + "-" + id }

// find tells whether an agent's account is there. One that somebody else made is an error: they may
// have keys and tokens of it. The backend's have their name for a login name, too: only a site
// administrator can give one to an account without a source of sign-ins, or look for one.
func (h *Host) find(api *sdk.Client, name string) (bool, *sdk.Response, error) {
	users, answer, err := api.AdminListUsers(sdk.AdminListUsersOptions{LoginName: name})
	if err != nil {
		return false, answer, err
	}
	for _, u := range users {
		switch {
		case u.LoginName != name || u.SourceID != 0:
		case u.UserName != name:
			return false, nil, fmt.Errorf("the account %s was renamed to %s: give it its old name back", name, u.UserName)
		default:
			return true, nil, nil
		}
	}
	_, answer, err = api.GetUserInfo(name)
	switch {
	case isNotFound(answer), status(answer)/100 == 3: // Of somebody's who has another name now.
		return false, nil, nil
	case err != nil:
		return false, answer, err
	}
	return false, nil, &githost.AccountTakenError{Name: name}
}

// newPassword has a character of each kind that a host may ask for (PASSWORD_COMPLEXITY of Gitea).
func newPassword() string { return credential.New("") + "-aA1" }

// makeAccounts makes the accounts of a cluster's agents. They see what they were given, own
// nothing, and nobody knows their passwords.
func (h *Host) makeAccounts(_ context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
	for _, agent := range agents {
		name := account(agent, id)
		if len(name) > maxAccount {
			return nil, fmt.Errorf("the account %s has %d characters, and the host takes %d: the cluster's id is too long for it", name, len(name), maxAccount)
		}
		found, answer, err := h.find(api, name)
		if !found && err == nil {
			// The host shows the agent's commits as this account's.
			_, email := contract.ComponentIdentity(agent, id)
			_, answer, err = api.AdminCreateUser(sdk.CreateUserOption{
				Username: name, LoginName: name, Email: email, Password: newPassword(), FullName: "gitbind's " + agent + " of " + id,
				MustChangePassword: ptr.To(false), Visibility: ptr.To(sdk.VisibleTypePrivate),
			})
		}
		if err != nil {
			return answer, err
		}
		if answer, err = api.AdminEditUser(name, sdk.EditUserOption{
			LoginName: name, Restricted: ptr.To(true), MaxRepoCreation: ptr.To(0), AllowCreateOrganization: ptr.To(false),
		}); err != nil {
			return answer, err
		}
	}
	return nil, nil
}

// scope is what an agent's token is for: pushing and fetching.
const scope = sdk.AccessTokenScope("write:repository")

// Issue implements githost.Accounts.
func (h *Host) Issue(ctx context.Context, id, agent, name string) (githost.Credential, error) {
	ctx = client.ForCredentials(ctx)
	var token *sdk.AccessToken
	err := h.as(ctx, id, agent, func(api *sdk.Client) (*sdk.Response, error) {
		if answer, err := api.DeleteAccessToken(name); err != nil && !isNotFound(answer) {
			return answer, err
		}
		var answer *sdk.Response
		var err error
		token, answer, err = api.CreateAccessToken(sdk.CreateAccessTokenOption{Name: name, Scopes: []sdk.AccessTokenScope{scope}})
		return answer, err
	})
	if err != nil {
		return githost.Credential{}, err
	}
	return githost.Credential{Username: account(agent, id), Password: token.Token}, nil
}

// Retain implements githost.Accounts.
func (h *Host) Retain(ctx context.Context, id, agent string, counting func(context.Context) ([]string, error)) error {
	ctx = client.ForCredentials(ctx)
	err := h.as(ctx, id, agent, func(api *sdk.Client) (*sdk.Response, error) {
		var tokens []*sdk.AccessToken
		for page := 1; ; page++ {
			some, answer, err := api.ListAccessTokens(sdk.ListAccessTokensOptions{ListOptions: sdk.ListOptions{Page: page, PageSize: 50}})
			if err != nil {
				return answer, err
			}
			if tokens = append(tokens, some...); len(some) == 0 {
				break
			}
		}
		names, err := counting(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range tokens {
			if slices.Contains(names, t.Name) {
				continue
			}
			answer, err := api.DeleteAccessToken(t.ID)
			if isNotFound(answer) {
				answer, err = nil, h.Ready(ctx)
			}
			if err != nil {
				return answer, err
			}
		}
		return nil, nil
	})
	if errors.Is(err, errNoAccount) {
		// No account, no tokens; unless it is not the host that says so.
		return h.Ready(ctx)
	}
	return err
}

// errNoAccount says that a cluster has no repository here, or that somebody removed the
// account.
var errNoAccount = errors.New("there is no such account")

// as acts as an agent's account, which alone may make and end tokens of it. It gets a
// password for that, which nobody else learns and the next one ends.
func (h *Host) as(ctx context.Context, id, agent string, do func(*sdk.Client) (*sdk.Response, error)) error {
	what, name := "tokens of the "+agent+" of "+id, account(agent, id)
	kept, _ := h.accounts.LoadOrStore(name, make(chan struct{}, 1))
	acting := kept.(chan struct{})
	select {
	case acting <- struct{}{}:
		defer func() { <-acting }()
	case <-ctx.Done():
		return fmt.Errorf("gitea: %s: %w", what, ctx.Err())
	}
	admin, err := h.admin(ctx)
	if err != nil {
		return err
	}
	found, answer, err := h.find(admin, name)
	if !found && err == nil {
		err = errNoAccount
	}
	if err != nil {
		return trouble(what, answer, err)
	}
	password := newPassword()
	if answer, err := admin.AdminEditUser(name, sdk.EditUserOption{LoginName: name, Password: password, MustChangePassword: ptr.To(false)}); err != nil {
		return trouble(what, answer, err)
	}
	api, err := h.api(ctx, sdk.SetBasicAuth(name, password))
	if err != nil {
		return err
	}
	answer, err = do(api)
	return trouble(what, answer, err)
}
