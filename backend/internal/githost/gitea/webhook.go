package gitea

import (
	"context"
	"log/slog"
	"net/http"

	sdk "code.gitea.io/sdk/gitea"
)

// maxHookPages is how many pages of webhooks are looked through.
const maxHookPages = 50

// hook has the host tell of pushes. The secret of one that is there cannot be read, so it
// is written again.
func (h *Host) hook(_ context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
	secret, err := h.hooks.Secret(id)
	if err != nil {
		return nil, err
	}
	config := map[string]string{"url": h.cfg.Hooks + id, "content_type": "json", "secret": secret}
	events := []string{"push", "create", "delete", "pull_request", "pull_request_sync"}
	active := true
	// The host may keep pages shorter than it was asked for, and does not say that others follow.
	for page := 1; page <= maxHookPages; page++ {
		hooks, answer, err := api.ListRepoHooks(h.cfg.Organization, id, sdk.ListHooksOptions{ListOptions: sdk.ListOptions{Page: page, PageSize: 50}})
		if err != nil {
			return answer, err
		}
		for _, hook := range hooks {
			if hook.Config["url"] == config["url"] {
				return api.EditRepoHook(h.cfg.Organization, id, hook.ID, sdk.EditHookOption{Config: config, Events: events, Active: &active})
			}
		}
		if len(hooks) == 0 {
			break
		}
	}
	_, answer, err := api.CreateRepoHook(h.cfg.Organization, id, sdk.CreateHookOption{Type: sdk.HookTypeGitea, Config: config, Events: events, Active: true})
	return answer, err
}

// Webhook takes what the host tells of a repository: see webhook.Receiver.Handler.
func (h *Host) Webhook(log *slog.Logger, moved func(cluster string)) http.Handler {
	return h.hooks.Handler(log, moved)
}
