// Package webhook takes what Git hosts tell of repositories. It believes nothing of what
// they say: a delivery that comes late, twice or out of order is a reason to look, like any
// other.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// MaxDelivery bounds what a webhook sends, in bytes.
const MaxDelivery = 32 << 20

// Receiver takes the deliveries of one host.
type Receiver struct {
	// Key reads what the secrets of webhooks follow from, so that there is nothing more to
	// keep: what the backend signs in to the host with.
	Key func() (string, error)
	// Signed tells whether a delivery is by who knows a secret. It reads of the body what it
	// needs.
	Signed func(header http.Header, body io.Reader, secret string) (bool, error)
}

// Secret is that of one cluster's webhook.
func (r *Receiver) Secret(cluster string) (string, error) {
	return r.sum("gitbind webhook " + cluster)
}

// URL is that of one cluster's webhook, below a URL. It tells by which key the secret was made,
// which hosts do not show: one with another URL has another secret. No delivery is judged by it.
func (r *Receiver) URL(below, cluster string) (string, error) {
	sum, err := r.sum("gitbind key of webhooks")
	if err != nil {
		return "", err
	}
	return below + cluster + "?key=" + sum[:16], nil
}

// sum is the HMAC-SHA256 of a text, in hexadecimal.
func (r *Receiver) sum(text string) (string, error) {
	key, err := r.Key()
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(sum, text)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Handler serves a path with the part {cluster}. Moved is called when a delivery has proved
// to be the host's; it must not block.
func (r *Receiver) Handler(log *slog.Logger, moved func(cluster string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		cluster := req.PathValue("cluster")
		if err := r.verify(w, req, cluster); err != nil {
			refusal.WriteJSON(log, w, req, err)
			return
		}
		moved(cluster)
		w.WriteHeader(http.StatusNoContent)
	})
}

func (r *Receiver) verify(w http.ResponseWriter, req *http.Request, cluster string) error {
	bad := refusal.New(refusal.Unauthenticated, "the signature of this delivery is not that of the cluster's webhook: delete that on the Git host and restart the backend, which makes it again")
	if !v1alpha1.ValidClusterID(cluster) {
		return bad
	}
	secret, err := r.Secret(cluster)
	if err != nil {
		return refusal.Because(err, refusal.Unavailable, "the webhook's secret cannot be read just now")
	}
	signed, err := r.Signed(req.Header, http.MaxBytesReader(w, req.Body, MaxDelivery), secret)
	if err != nil {
		return refusal.Because(err, refusal.Invalid, "the delivery cannot be read, or has more than %d bytes", MaxDelivery)
	}
	if !signed {
		return bad
	}
	return nil
}

// HMAC is for a host that puts into a header the HMAC-SHA256 of the body, in hexadecimal and
// perhaps after "sha256=".
func HMAC(header string) func(http.Header, io.Reader, string) (bool, error) {
	return func(h http.Header, body io.Reader, secret string) (bool, error) {
		signature, err := hex.DecodeString(strings.TrimPrefix(h.Get(header), "sha256="))
		if err != nil || len(signature) != sha256.Size {
			return false, nil
		}
		sum := hmac.New(sha256.New, []byte(secret))
		if _, err := io.Copy(sum, body); err != nil {
			return false, err
		}
		return hmac.Equal(sum.Sum(nil), signature), nil
	}
}
