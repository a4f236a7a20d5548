package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// sign signs a delivery as a host does.
func sign(t *testing.T, r Receiver, id, body string) string {
	t.Helper()
	secret, err := r.Secret(id)
	if err != nil {
		t.Fatal(err)
	}
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	return hex.EncodeToString(sum.Sum(nil))
}

func TestE12_OnlyTheHostsOwnDeliveriesAreBelieved(t *testing.T) {
	t.Parallel()
	const id, other, body = "k3x9d2abqw", "zz7d2abqwe", `{"ref":"refs/heads/main"}`
	with := func(key string) Receiver {
		return Receiver{Key: func() (string, error) { return key, nil }, Signed: HMAC("X-Signature")}
	}
	host, renewed := with("secret"), with("another")
	var moved []string
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{cluster}", host.Handler(slog.New(slog.DiscardHandler), func(cluster string) { moved = append(moved, cluster) }))
	for name, c := range map[string]struct {
		cluster, body, signature string
		status                   int
	}{
		"the host's":                {id, body, sign(t, host, id, body), http.StatusNoContent},
		"with the algorithm":        {id, body, "sha256=" + sign(t, host, id, body), http.StatusNoContent},
		"no signature":              {id, body, "", http.StatusUnauthorized},
		"no hexadecimal":            {id, body, "zz", http.StatusUnauthorized},
		"another body":              {id, body + " ", sign(t, host, id, body), http.StatusUnauthorized},
		"of another cluster":        {id, body, sign(t, host, other, body), http.StatusUnauthorized},
		"to another cluster":        {other, body, sign(t, host, id, body), http.StatusUnauthorized},
		"no cluster":                {"Ä", body, sign(t, host, "Ä", body), http.StatusUnauthorized},
		"with a token that is gone": {id, body, sign(t, renewed, id, body), http.StatusUnauthorized},
		"too large":                 {id, strings.Repeat("x", MaxDelivery+1), strings.Repeat("00", 32), http.StatusBadRequest},
	} {
		moved = nil
		r := httptest.NewRequest(http.MethodPost, "/hooks/"+c.cluster, strings.NewReader(c.body))
		r.Header.Set("X-Signature", c.signature)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.status || (len(moved) == 1) != (c.status == http.StatusNoContent) {
			t.Errorf("%s: %d %s, moved %v; want %d", name, w.Code, w.Body, moved, c.status)
		}
	}
}
