package gitlab

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"gitbind.dev/backend/internal/githost"
)

// hook has the host tell of pushes and merge requests. The secret of one that is there cannot
// be read, so it is written again; one that the host has given up on is made again.
func (h *Host) hook(ctx context.Context, id string, _ *project) error {
	secret, err := h.hooks.Secret(id)
	if err != nil {
		return err
	}
	there, err := h.ownHooks(ctx, id)
	if err != nil {
		return err
	}
	hooks := h.project(id) + "/hooks"
	method, path := http.MethodPost, hooks
	for _, hook := range there {
		this := fmt.Sprintf("%s/%d", hooks, hook.ID)
		if !strings.HasSuffix(hook.Status, "disabled") {
			method, path = http.MethodPut, this
		} else if err := h.send(ctx, http.MethodDelete, this, nil, nil); err != nil && !isNotFound(err) {
			return err
		}
	}
	err = h.send(ctx, method, path, map[string]any{
		"url": h.cfg.Hooks + id, "token": secret, "push_events": true, "merge_requests_events": true, "enable_ssl_verification": true,
	}, nil)
	if status(err) == http.StatusUnprocessableEntity {
		return fmt.Errorf("%w (%w)", githost.ErrWebhook, err)
	}
	return err
}

// shownHook is a webhook as the host shows it.
type shownHook struct {
	ID     int    `json:"id"`
	URL    string `json:"url"`
	Status string `json:"alert_status"` // older hosts have none
}

// ownHooks are the project's webhooks to the backend.
func (h *Host) ownHooks(ctx context.Context, id string) ([]shownHook, error) {
	all, err := list[shownHook](ctx, h, h.project(id)+"/hooks", "")
	return slices.DeleteFunc(all, func(hook shownHook) bool { return hook.URL != h.cfg.Hooks+id }), err
}

// hasToken tells whether a delivery shows the secret: the host signs nothing.
func hasToken(header http.Header, _ io.Reader, secret string) (bool, error) {
	return subtle.ConstantTimeCompare([]byte(header.Get("X-Gitlab-Token")), []byte(secret)) == 1, nil
}

// Webhook takes what the host tells of a repository: see webhook.Receiver.Handler.
func (h *Host) Webhook(log *slog.Logger, moved func(cluster string)) http.Handler {
	return h.hooks.Handler(log, moved)
}
