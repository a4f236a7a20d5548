package gitea

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost"
)

// TestAHostThatIsSlowForOneClusterIsNotForOthers has it never answer for one account.
func TestAHostThatIsSlowForOneClusterIsNotForOthers(t *testing.T) {
	t.Parallel()
	arrived, stop := make(chan struct{}, 10), make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "slow1") {
			arrived <- struct{}{}
			<-stop
		}
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = w.Write([]byte(`{"sha1":"opens"}`))
	})
	h := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = h.Issue(t.Context(), "slow1", konnector, "n")
	}()
	defer func() { close(stop); <-done }()
	<-arrived
	in := func(d time.Duration, id string) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		_, err := h.Issue(ctx, id, konnector, "n")
		return err
	}
	if err := in(10*time.Second, "other1"); err != nil {
		t.Errorf("another cluster: %v", err)
	}
	began := time.Now()
	if err := in(50*time.Millisecond, "slow1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second || len(arrived) > 0 {
		t.Errorf("who waits for the same account: %v after %s, the host was asked %d times more", err, time.Since(began), len(arrived))
	}
}

// TestTokensHaveNotEndedWhileNobodySaysSo has a proxy answer 404 to everything from some request on,
// as one does of which the route is not there for a moment.
func TestTokensHaveNotEndedWhileNobodySaysSo(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"from the beginning": "", "while tokens are ended": http.MethodDelete} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var away atomic.Bool
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if from == "" || r.Method == from {
					away.Store(true)
				}
				switch {
				case away.Load():
					http.Error(w, "404 page not found", http.StatusNotFound)
				case r.URL.Query().Get("page") == "1":
					_, _ = w.Write([]byte(`[{"id": 1, "name": "ended"}]`))
				default:
					_, _ = w.Write([]byte(`[]`))
				}
			})
			h := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
			if err := h.Retain(t.Context(), "k3x9d2abqw", konnector, func(context.Context) ([]string, error) { return nil, nil }); err == nil {
				t.Error("all tokens are said to have ended")
			}
		})
	}
}

// TestCredentialsWaitForNoLimitOfWhatIsRead has a host that refuses to list pull requests.
func TestCredentialsWaitForNoLimitOfWhatIsRead(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/pulls"):
			w.WriteHeader(http.StatusTooManyRequests)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"sha1": "opens"}`))
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`[]`))
		}
	})
	h := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	if _, err := h.Changes(t.Context(), "k3x9d2abqw"); !errors.As(err, new(*githost.RateLimitError)) {
		t.Fatal(err)
	}
	if c, err := h.Issue(t.Context(), "k3x9d2abqw", konnector, "n"); err != nil || c.Password != "opens" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := h.Retain(t.Context(), "k3x9d2abqw", konnector, func(context.Context) ([]string, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
}
