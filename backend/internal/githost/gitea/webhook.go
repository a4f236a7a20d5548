package gitea

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"strings"

	sdk "code.gitea.io/sdk/gitea"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// hook has the host tell of pushes. The secret of one that is there cannot be read, so it
// is written again.
func (h *Host) hook(_ context.Context, api *sdk.Client, id string) (*sdk.Response, error) {
	secret, err := h.hookSecret(id)
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

// hookSecret is that of one cluster's webhook. It follows from the administrator's token,
// so that there is nothing more to keep.
func (h *Host) hookSecret(id string) (string, error) {
	token, err := h.cfg.Token()
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, []byte(token))
	_, _ = io.WriteString(sum, "gitbind webhook "+id)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// maxDelivery bounds what a webhook sends, in bytes.
const maxDelivery = 32 << 20

// Webhook takes what the host tells of a repository. Moved is called when it has proved to
// be the host's; it must not block. Nothing of what it says is believed: a delivery that
// comes late, twice or out of order is a reason to look, like any other.
func (h *Host) Webhook(log *slog.Logger, moved func(cluster string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("cluster")
		err := h.verify(w, r, id)
		if err != nil {
			refusal.WriteJSON(log, w, r, err)
			return
		}
		moved(id)
		w.WriteHeader(http.StatusNoContent)
	})
}

func (h *Host) verify(w http.ResponseWriter, r *http.Request, id string) error {
	bad := refusal.New(refusal.Unauthenticated, "the signature of this delivery is not that of the cluster's webhook: the backend writes the webhook again when it starts")
	signature, err := hex.DecodeString(strings.TrimPrefix(r.Header.Get("X-Gitea-Signature"), "sha256="))
	if err != nil || len(signature) != sha256.Size || !v1alpha1.ValidClusterID(id) {
		return bad
	}
	secret, err := h.hookSecret(id)
	if err != nil {
		return refusal.Because(err, refusal.Unavailable, "the webhook's secret cannot be read just now")
	}
	sum := hmac.New(sha256.New, []byte(secret))
	if _, err := io.Copy(sum, http.MaxBytesReader(w, r.Body, maxDelivery)); err != nil {
		return refusal.Because(err, refusal.Invalid, "the delivery cannot be read, or has more than %d bytes", maxDelivery)
	}
	if !hmac.Equal(sum.Sum(nil), signature) {
		return bad
	}
	return nil
}
