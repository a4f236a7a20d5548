package gitea

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
)

// sign signs a delivery as the host does.
func sign(t *testing.T, h *Host, id, body string) string {
	t.Helper()
	secret, err := h.hookSecret(id)
	if err != nil {
		t.Fatal(err)
	}
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	return hex.EncodeToString(sum.Sum(nil))
}

func TestOnlyTheHostsOwnDeliveriesAreBelieved(t *testing.T) {
	const id, other, body = "k3x9d2abqw", "zz7d2abqwe", `{"ref":"refs/heads/main"}`
	host := New(Config{URL: "https://git.example.com", Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	renewed := New(Config{Token: func() (string, error) { return "another", nil }})
	var moved []string
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{cluster}", host.Webhook(slog.New(slog.DiscardHandler), func(cluster string) { moved = append(moved, cluster) }))
	for name, c := range map[string]struct {
		cluster, body, signature string
		status                   int
	}{
		"the host's":                {id, body, sign(t, host, id, body), http.StatusNoContent},
		"no signature":              {id, body, "", http.StatusUnauthorized},
		"no hexadecimal":            {id, body, "zz", http.StatusUnauthorized},
		"another body":              {id, body + " ", sign(t, host, id, body), http.StatusUnauthorized},
		"of another cluster":        {id, body, sign(t, host, other, body), http.StatusUnauthorized},
		"to another cluster":        {other, body, sign(t, host, id, body), http.StatusUnauthorized},
		"no cluster":                {"Ä", body, sign(t, host, "Ä", body), http.StatusUnauthorized},
		"with a token that is gone": {id, body, sign(t, renewed, id, body), http.StatusUnauthorized},
		"too large":                 {id, strings.Repeat("x", maxDelivery+1), strings.Repeat("00", 32), http.StatusBadRequest},
	} {
		moved = nil
		r := httptest.NewRequest(http.MethodPost, "/hooks/"+c.cluster, strings.NewReader(c.body))
		r.Header.Set("X-Gitea-Signature", c.signature)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.status || (len(moved) == 1) != (c.status == http.StatusNoContent) {
			t.Errorf("%s: %d %s, moved %v; want %d", name, w.Code, w.Body, moved, c.status)
		}
	}
}

// TestTheTokenGoesNowhereElse has the host send the client away.
func TestTheTokenGoesNowhereElse(t *testing.T) {
	var stolen string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	t.Cleanup(thief.Close)
	liar := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	t.Cleanup(liar.Close)
	host := New(Config{URL: liar.URL, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	if err := host.Create(t.Context(), "k3x9d2abqw"); err == nil || stolen != "" {
		t.Errorf("%v, and another one got %q", err, stolen)
	}
}

func TestWhatTheOperatorIsToMendIsSaid(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message":"token does not have at least one of required scope(s): [write:admin]"}`))
	}))
	t.Cleanup(refuses.Close)
	host := New(Config{URL: refuses.URL, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	err := host.Create(t.Context(), "k3x9d2abqw")
	if !errors.Is(err, githost.ErrCredential) || !strings.Contains(err.Error(), "required scope(s)") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if _, err := host.makeAccounts(t.Context(), nil, strings.Repeat("a", 30)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long id: %v", err)
	}
}
