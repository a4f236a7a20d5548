package hosttest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/webhook"
)

func deliveries(t *testing.T, w World) {
	id, body := cluster(), []byte(`{"ref":"refs/heads/main"}`)
	var moved []string
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{cluster}", w.Start().Webhook(slog.New(slog.DiscardHandler), func(cluster string) { moved = append(moved, cluster) }))
	secret := func(key, cluster string) string {
		s, err := (&webhook.Receiver{Key: func() (string, error) { return key, nil }}).Secret(cluster)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for what, c := range map[string]struct {
		secret string
		status int
	}{
		"the host's":           {secret(w.Key, id), http.StatusNoContent},
		"by nobody":            {"", http.StatusUnauthorized},
		"of another cluster's": {secret(w.Key, cluster()), http.StatusUnauthorized},
		"of an older key":      {secret("older", id), http.StatusUnauthorized},
	} {
		moved = nil
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks/"+id, bytes.NewReader(body))
		if c.secret != "" {
			w.Sign(r, body, c.secret)
		}
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		if answer.Code != c.status || slices.Equal(moved, []string{id}) != (c.status == http.StatusNoContent) {
			t.Errorf("a delivery %s: %d, moved %v; want %d", what, answer.Code, moved, c.status)
		}
	}
}

func changed(t *testing.T, w World) {
	h, id := w.made(t)
	w.Archive(t, id)
	if _, err := h.Exists(t.Context(), id); !errors.Is(err, githost.ErrArchived) {
		t.Errorf("archived: %v", err)
	}
	h, id = w.made(t)
	w.Rename(t, id, id+"x")
	if _, err := h.Exists(t.Context(), id); !errors.Is(err, githost.ErrRenamed) {
		t.Errorf("renamed: %v", err)
	}
	if err := w.Start().Create(t.Context(), id); !errors.Is(err, githost.ErrRenamed) {
		t.Errorf("renamed, and made again: %v", err)
	}
	w.Delete(t, id+"x")
	h, id = w.made(t)
	w.Delete(t, id)
	if ok, err := h.Exists(t.Context(), id); ok || err != nil {
		t.Errorf("deleted: %t, %v", ok, err)
	}
	if err := h.Create(t.Context(), id); err != nil {
		t.Errorf("deleted, and made again: %v", err)
	}
	if ok, err := h.Exists(t.Context(), id); !ok || err != nil {
		t.Errorf("made again: %t, %v", ok, err)
	}
}

func refusals(t *testing.T, w World) {
	for what, c := range map[string]struct {
		status int
		after  string
		// limit is that it is a rate limit, and no refusal.
		limit bool
	}{
		"unauthorized": {http.StatusUnauthorized, "", false},
		"forbidden":    {http.StatusForbidden, "", false},
		"too many":     {http.StatusTooManyRequests, "90", true},
		"too much":     {http.StatusForbidden, "90", true},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
			asked++
			answer.Header().Set("Content-Type", "application/json")
			if c.after != "" {
				answer.Header().Set("Retry-After", c.after)
			}
			answer.WriteHeader(c.status)
			_, _ = answer.Write([]byte(`{"message":"the words of the host"}`))
		}))
		t.Cleanup(server.Close)
		for name, do := range map[string]func(context.Context, Host) error{
			"create": func(ctx context.Context, h Host) error { return h.Create(ctx, cluster()) },
			"exists": func(ctx context.Context, h Host) error { _, err := h.Exists(ctx, cluster()); return err },
			"issue":  func(ctx context.Context, h Host) error { _, err := h.Issue(ctx, cluster(), konnector, "k"); return err },
			"ready":  func(ctx context.Context, h Host) error { return h.Ready(ctx) },
		} {
			h := w.At(server.URL)
			asked = 0
			err := do(t.Context(), h)
			var limit *githost.RateLimitError
			limited := errors.As(err, &limit)
			switch {
			case limited != c.limit || errors.Is(err, githost.ErrCredential) == c.limit:
				t.Errorf("%s is %s: %v", name, what, err)
			case !limited:
				if !strings.Contains(err.Error(), "the words of the host") {
					t.Errorf("%s is %s, without the host's words: %v", name, what, err)
				}
			default:
				if wait := time.Until(limit.Until); wait < 80*time.Second || wait > 90*time.Second {
					t.Errorf("%s is to wait for %s", name, wait)
				}
				if err := do(t.Context(), h); !errors.As(err, &limit) || asked != 1 {
					t.Errorf("%s asked %d times within the limit: %v", name, asked, err)
				}
			}
		}
	}
}
