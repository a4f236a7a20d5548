package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/client"
)

const (
	// tokenDays is how long an agent's token counts, and tokenLeft how much of that is left
	// when it is renewed. The host takes a year at most, or what its administrator set.
	tokenDays = 60
	tokenLeft = tokenDays / 2 * 24 * time.Hour
)

// token is a project access token. Its secret is shown once.
type token struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Active bool   `json:"active"`
	Secret string `json:"token"`
}

// tokenName is what a credential's token is called. Tokens of people are called otherwise.
func tokenName(agent, name string) string { return "gitbind-" + agent + "-" + name }

// keptTokens is how many tokens of one credential count: the agent goes on with an earlier one
// until it has the newest, which may take more than one try.
const keptTokens = 3

// Issue implements githost.Accounts.
func (h *Host) Issue(ctx context.Context, id, agent, name string) (githost.Credential, error) {
	ctx = client.ForCredentials(ctx)
	what, name := "make a token of the "+agent+" of "+id, tokenName(agent, name)
	// It ends when that day begins.
	expires := time.Now().UTC().AddDate(0, 0, tokenDays).Truncate(24 * time.Hour)
	var made token
	err := h.send(ctx, http.MethodPost, h.project(id)+"/access_tokens", map[string]any{
		"name": name, "access_level": maintainer, "scopes": []string{"read_repository", "write_repository"}, "expires_at": expires.Format(time.DateOnly),
	}, &made)
	if status(err) == http.StatusBadRequest {
		// So the host says, too, that the tier, a setting or the token's kind makes none.
		err = fmt.Errorf("%w (%w)", githost.ErrCredential, err)
	}
	if err != nil {
		return githost.Credential{}, trouble(what, err)
	}
	there, err := h.tokens(ctx, id, agent)
	if err != nil {
		return githost.Credential{}, trouble(what, err)
	}
	there = slices.DeleteFunc(there, func(t token) bool { return t.Name != name })
	slices.SortFunc(there, func(a, b token) int { return b.ID - a.ID })
	if len(there) > keptTokens {
		if err := h.revoke(ctx, id, there[keptTokens:]); err != nil {
			return githost.Credential{}, trouble(what, err)
		}
	}
	return githost.Credential{Username: "gitbind-" + agent, Password: made.Secret, Expires: expires, RenewAfter: expires.Add(-tokenLeft)}, nil
}

// Retain implements githost.Accounts.
func (h *Host) Retain(ctx context.Context, id, agent string, counting func(context.Context) ([]string, error)) error {
	ctx = client.ForCredentials(ctx)
	what := "end tokens of the " + agent + " of " + id
	there, err := h.tokens(ctx, id, agent)
	if isNotFound(err) {
		// No project, no tokens; unless the host shows us nothing any more.
		return h.Ready(ctx)
	}
	if err != nil {
		return trouble(what, err)
	}
	names, err := counting(ctx)
	if err != nil {
		return err
	}
	return trouble(what, h.revoke(ctx, id, slices.DeleteFunc(there, func(t token) bool {
		return slices.Contains(names, strings.TrimPrefix(t.Name, tokenName(agent, "")))
	})))
}

// tokens are those of an agent that count.
func (h *Host) tokens(ctx context.Context, id, agent string) ([]token, error) {
	all, err := list[token](ctx, h, h.project(id)+"/access_tokens", "&state=active")
	return slices.DeleteFunc(all, func(t token) bool {
		// Older hosts do not know the state, and list all.
		return !t.Active || !strings.HasPrefix(t.Name, tokenName(agent, ""))
	}), err
}

func (h *Host) revoke(ctx context.Context, id string, tokens []token) error {
	for _, t := range tokens {
		err := h.send(ctx, http.MethodDelete, fmt.Sprintf("%s/access_tokens/%d", h.project(id), t.ID), nil, nil)
		if isNotFound(err) {
			err = h.Ready(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
