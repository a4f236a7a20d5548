package gitea

import (
	"context"
	"log/slog"
	"net/http"

	sdk "code.gitea.io/sdk/gitea"
)

// hook has the host tell of pushes. The secret of one that is there cannot be read, so it
// is written again.
func (h *Host) hook(_ context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
	secret, err := h.hooks.Secret(id)
	if err != nil {
		return nil, err
	}
	config := map[string]string{"url": h.cfg.Hooks + id, "content_type": "json", "secret": secret}
	events := []string{"push", "create", "delete", "pull_request", "pull_request_sync"}
	hooks, answer, err := api.ListRepoHooks(h.cfg.Organization, id, sdk.ListHooksOptions{ListOptions: sdk.ListOptions{PageSize: 50}})
	if err != nil {
		return answer, err
	}
	active := true
	for _, hook := range hooks {
		if hook.Config["url"] == config["url"] {
			return api.EditRepoHook(h.cfg.Organization, id, hook.ID, sdk.EditHookOption{Config: config, Events: events, Active: &active})
		}
	}
	_, answer, err = api.CreateRepoHook(h.cfg.Organization, id, sdk.CreateHookOption{Type: sdk.HookTypeGitea, Config: config, Events: events, Active: true})
	return answer, err
}

// Webhook takes what the host tells of a repository: see webhook.Receiver.Handler.
func (h *Host) Webhook(log *slog.Logger, moved func(cluster string)) http.Handler {
	return h.hooks.Handler(log, moved)
}
