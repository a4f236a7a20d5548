package gitea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
		if r.URL.Path == "/api/v1/admin/users" {
			_, _ = w.Write([]byte(listed(r)))
			return
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
	if err := in(time.Minute, "other1"); err != nil {
		t.Errorf("another cluster: %v", err)
	}
	if err := in(50*time.Millisecond, "slow1"); !errors.Is(err, context.DeadlineExceeded) || len(arrived) > 0 {
		t.Errorf("who waits for the same account: %v, the host was asked %d times more", err, len(arrived))
	}
}

// listed is what a host answers who looks for the account with a login name, and made it.
func listed(r *http.Request) string {
	name := r.URL.Query().Get("login_name")
	return fmt.Sprintf(`[{"login": %q, "login_name": %[1]q}]`, name)
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
				case r.URL.Path == "/api/v1/admin/users":
					_, _ = w.Write([]byte(listed(r)))
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

// TestPasswordsAreAsComplexAsAHostAsks has one that wants a character of each kind, often enough to draw
// passwords that have none by chance.
func TestPasswordsAreAsComplexAsAHostAsks(t *testing.T) {
	t.Parallel()
	made := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Password string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case body.Password != "":
			made++
			for _, kind := range []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "-_+/="} {
				if !strings.ContainsAny(body.Password, kind) {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = w.Write([]byte(`{"message": "PasswordComplexity"}`))
					return
				}
			}
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusCreated)
			}
			_, _ = w.Write([]byte(`{}`))
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/api/v1/users/"):
			w.WriteHeader(http.StatusNotFound)
		case strings.HasSuffix(r.URL.Query().Get("login_name"), "-new1"):
			_, _ = w.Write([]byte(`[]`))
		case r.URL.Path == "/api/v1/admin/users":
			_, _ = w.Write([]byte(listed(r)))
		default:
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusCreated)
			}
			_, _ = w.Write([]byte(`{"sha1": "opens"}`))
		}
	})
	h := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	api, err := h.admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := h.Issue(t.Context(), "k3x9d2abqw", konnector, "n"); err != nil {
			t.Fatalf("a token: %v", err)
		}
		if _, err := h.makeAccounts(t.Context(), api, "new1"); err != nil {
			t.Fatalf("accounts: %v", err)
		}
	}
	if made != 150 {
		t.Errorf("%d passwords were set, want 150", made)
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
		case r.URL.Path == "/api/v1/admin/users":
			_, _ = w.Write([]byte(listed(r)))
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

// TestAnAccountThatIsNotOursIsGivenNothing has a host on which people register as they like, and as
// whom one likes: by itself, or by what else the company signs in with.
func TestAnAccountThatIsNotOursIsGivenNothing(t *testing.T) {
	t.Parallel()
	const name = "gitbind-konnector-k3x9d2abqw"
	for what, c := range map[string]struct {
		byLoginName string
		words       string // "" for what is in the way
	}{
		"registered":                        {`[]`, ""},
		"of an LDAP":                        {`[{"login": "` + name + `", "login_name": "` + name + `", "source_id": 1}]`, ""},
		"of a host that lists all":          {`[{"login": "` + name + `"}, {"login": "operator"}]`, ""},
		"beside ours, under another":        {`[{"login": "other", "login_name": "` + name + `"}]`, "was renamed to other"},
		"with a token that lost its rights": {`{}`, "the words of the host"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var writes []string
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.Method != http.MethodGet:
					writes = append(writes, r.Method+" "+r.URL.Path)
				case r.URL.Path != "/api/v1/admin/users":
					_, _ = w.Write([]byte(`{"login": "` + name + `"}`))
				case c.byLoginName == `{}`:
					w.WriteHeader(http.StatusForbidden)
					_, _ = w.Write([]byte(`{"message": "the words of the host"}`))
				default:
					_, _ = w.Write([]byte(c.byLoginName))
				}
			})
			h := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
			_, issue := h.Issue(t.Context(), "k3x9d2abqw", konnector, "n")
			for do, err := range map[string]error{
				"set up": h.Create(t.Context(), "k3x9d2abqw"),
				"issue":  issue,
				"retain": h.Retain(t.Context(), "k3x9d2abqw", konnector, func(context.Context) ([]string, error) { return nil, nil }),
			} {
				var taken *githost.AccountTakenError
				if is := errors.As(err, &taken) && taken.Name == name; err == nil || is != (c.words == "") || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%s: %v", do, err)
				}
			}
			if len(writes) > 0 {
				t.Errorf("it wrote %q", slices.Compact(writes))
			}
		})
	}
}
