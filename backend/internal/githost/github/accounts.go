package github

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	sdk "github.com/google/go-github/v93/github"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/client"
)

const (
	// tokenUser is the username with each token of an App.
	tokenUser = "x-access-token"
	// agentLeft is how much of an agent's token is left when it is to be renewed. GitHub lets
	// tokens live for an hour.
	agentLeft = 20 * time.Minute
)

// issued are the tokens that were given to agents since the process began: GitHub ends one
// for who shows it only, and by itself within the hour.
type issued struct {
	mu sync.Mutex
	to map[recipient][]token
}

// recipient is an agent of a cluster.
type recipient struct{ id, agent string }

// token is one that was given under a name.
type token struct {
	name, value string
	expires     time.Time
}

func (i *issued) add(id, agent string, t token, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// Nobody says that a cluster is gone.
	maps.DeleteFunc(i.to, func(_ recipient, tokens []token) bool {
		return !slices.ContainsFunc(tokens, func(t token) bool { return now.Before(t.expires) })
	})
	if i.to == nil {
		i.to = map[recipient][]token{}
	}
	key := recipient{id, agent}
	i.to[key] = append(i.to[key], t)
}

// list gives those that have not expired.
func (i *issued) list(id, agent string, now time.Time) []token {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.to[recipient{id, agent}]), func(t token) bool { return !now.Before(t.expires) })
}

func (i *issued) remove(id, agent, value string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := recipient{id, agent}
	if tokens, ok := i.to[key]; ok {
		i.to[key] = slices.DeleteFunc(tokens, func(t token) bool { return t.value == value })
	}
}

// of is the App of an agent.
func (h *Host) of(agent string) *app {
	if agent == credential.KonnectorUser {
		return h.konnector
	}
	return h.backend
}

// Issue implements githost.Accounts. The one before of the same name counts until it expires.
func (h *Host) Issue(ctx context.Context, id, agent, name string) (githost.Credential, error) {
	t, err := h.of(agent).issue(ctx, &sdk.InstallationTokenOptions{
		Repositories: []string{id}, Permissions: &sdk.InstallationPermissions{Contents: new("write")},
	})
	if err != nil {
		return githost.Credential{}, err
	}
	expires := t.GetExpiresAt().Time
	h.issued.add(id, agent, token{name, t.GetToken(), expires}, h.cfg.Now())
	if err := h.of(agent).takes(ctx, t.GetToken()); err != nil {
		return githost.Credential{}, err
	}
	return githost.Credential{Username: tokenUser, Password: t.GetToken(), Expires: expires, RenewAfter: expires.Add(-agentLeft)}, nil
}

// Retain implements githost.Accounts. A token that a process before this one gave ends within
// the hour.
func (h *Host) Retain(ctx context.Context, id, agent string, counting func(context.Context) ([]string, error)) error {
	ctx = client.ForCredentials(ctx)
	tokens := h.issued.list(id, agent, h.cfg.Now())
	if len(tokens) == 0 {
		return nil
	}
	names, err := counting(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tokens {
		if slices.Contains(names, t.name) {
			continue
		}
		if err := h.of(agent).end(ctx, t.value); err != nil {
			errs = append(errs, err)
			continue
		}
		h.issued.remove(id, agent, t.value)
	}
	return errors.Join(errs...)
}

// takes waits a moment for GitHub to know a token that was just made. To ask for the rate limit
// counts against none, and a server without one answers 404.
func (a *app) takes(ctx context.Context, token string) error {
	api, err := a.client(token)
	if err != nil {
		return err
	}
	if _, answer, err := api.RateLimit.Get(ctx); status(answer) == http.StatusUnauthorized {
		return fmt.Errorf("github: use a token that was just made: %w", err)
	}
	return nil
}

// end has a token of the App count no longer.
func (a *app) end(ctx context.Context, token string) error {
	api, err := a.client(token)
	if err != nil {
		return err
	}
	answer, err := api.Apps.RevokeInstallationToken(ctx)
	if status(answer) == http.StatusUnauthorized {
		return nil // it has ended
	}
	return a.trouble("end a token", err)
}
