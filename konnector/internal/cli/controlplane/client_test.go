package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

// backend answers as scripted and notes the tokens that reach it.
type backend struct {
	*httptest.Server
	tokens []string
	answer func(w http.ResponseWriter, r *http.Request)
}

func newBackend(t *testing.T, answer func(http.ResponseWriter, *http.Request)) *backend {
	t.Helper()
	b := &backend{answer: answer}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"issuer":"https://dex.example.com","clientID":"gitbind-cli"}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		b.tokens = append(b.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		b.answer(w, r)
	})
	b.Server = httptest.NewServer(mux)
	t.Cleanup(b.Close)
	return b
}

// open signs in with a saved token.
func (b *backend) open(t *testing.T, how signin.How) (*Client, error) {
	t.Helper()
	s := &signin.SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: b.Client(), Now: time.Now}
	if err := s.Sessions.Save(session.Session{
		BackendURL: b.URL, Issuer: "https://dex.example.com", ClientID: "gitbind-cli", IDToken: "saved", Expiry: time.Now().Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), b.URL, s, how)
}

func TestTheTokenGoesToNoOtherHost(t *testing.T) {
	elsewhere := newBackend(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") })
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	c, err := b.open(t, signin.How{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Catalog(t.Context()); err == nil || !strings.Contains(err.Error(), "it sends to ") {
		t.Errorf("error is %v", err)
	}
	if len(elsewhere.tokens) > 0 {
		t.Errorf("the other host got %q", elsewhere.tokens)
	}
}

func TestNoPlainHTTPToAnotherMachine(t *testing.T) {
	s := &signin.SignIn{HTTP: &http.Client{Transport: unreachableTransport{}}}
	_, err := Open(t.Context(), "http://gitbind.example.com", s, signin.How{})
	if err == nil || !strings.Contains(err.Error(), "is not https") {
		t.Errorf("error is %v", err)
	}
	_, err = Open(t.Context(), "http://gitbind.example.com", s, signin.How{PlainHTTP: true})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached: no network here") {
		t.Errorf("error is %v", err)
	}
}

type unreachableTransport struct{}

func (unreachableTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no network here")
}

func TestRefusalsAreTheBackendsWords(t *testing.T) {
	for what, c := range map[string]struct {
		status    int
		body      string
		want      string
		isRefused bool
	}{
		"a refusal":              {http.StatusNotFound, `{"message":"there is no offer \"x\""}`, `there is no offer "x"`, true},
		"a proxy's page":         {http.StatusBadGateway, "<html>", "answered 502 bad gateway: check the URL", true},
		"a page in the place of": {http.StatusOK, "<html>", "did not answer as a gitbind backend does", false},
	} {
		b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		client, err := b.open(t, signin.How{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Bind(t.Context(), "abc", "x")
		var refused *Refused
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &refused) != c.isRefused {
			t.Errorf("%s: error is %v", what, err)
		}
		if strings.Contains(err.Error(), "saved") {
			t.Errorf("%s: the error has the token", what)
		}
	}
}

func TestARefusedTokenIsRenewedOnce(t *testing.T) {
	b := newBackend(t, nil)
	b.answer = func(w http.ResponseWriter, _ *http.Request) {
		if len(b.tokens) == 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "[]")
	}
	var renewals []bool
	c := &Client{url: b.URL, http: b.Client(), token: func(_ context.Context, renew bool) (string, error) {
		renewals = append(renewals, renew)
		return fmt.Sprintf("token-%d", len(renewals)), nil
	}}
	if _, err := c.Clusters(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.tokens, renewals); got != "[token-1 token-2] [false true]" {
		t.Errorf("got %s", got)
	}
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		status, times int
		retryAfter    string
		works         bool
		requests      int
	}{
		"it passes":                    {http.StatusServiceUnavailable, 2, "1", true, 3},
		"too many at once":             {http.StatusTooManyRequests, 2, "1", true, 3},
		"it stays":                     {http.StatusServiceUnavailable, 99, "1", false, tries},
		"a proxy's, which may have it": {http.StatusServiceUnavailable, 2, "", false, 1},
		"a refusal":                    {http.StatusForbidden, 2, "1", false, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, nil)
			b.answer = func(w http.ResponseWriter, _ *http.Request) {
				if len(b.tokens) > c.times {
					fmt.Fprint(w, `{"name":"x"}`)
					return
				}
				w.Header().Set("Retry-After", c.retryAfter)
				w.WriteHeader(c.status)
				fmt.Fprint(w, `{"message":"the control plane cannot do this just now: try again"}`)
			}
			client, err := b.open(t, signin.How{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Bind(t.Context(), "abc", "x")
			if c.works != (err == nil) || !c.works && err.Error() != "the control plane cannot do this just now: try again" {
				t.Errorf("error is %v", err)
			}
			if len(b.tokens) != c.requests {
				t.Errorf("%d requests, want %d", len(b.tokens), c.requests)
			}
		})
	}
}

func TestATokenFromElsewhereIsNotTriedTwice(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"message":"the token has expired"}`)
	})
	c, err := b.open(t, signin.How{Token: "given"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Clusters(t.Context()); err == nil || err.Error() != "the token has expired" || len(b.tokens) != 1 {
		t.Errorf("error is %v after %d tries", err, len(b.tokens))
	}
}

func TestAnswersWithoutACredentialAreNotTaken(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"abc","repositoryURL":"https://x"}`)
	})
	c, err := b.open(t, signin.How{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Connect(t.Context(), restapi.ConnectRequest{}); err == nil || !strings.Contains(err.Error(), "no credential") {
		t.Errorf("error is %v", err)
	}
}

func TestAListOfChangesMayHaveMore(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]bool{"": false, "true": true} {
		b := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
			if said != "" {
				w.Header().Set(restapi.MoreHeader, said)
			}
			fmt.Fprint(w, `[{"branch":"changes/a"}]`)
		})
		c, err := b.open(t, signin.How{})
		if err != nil {
			t.Fatal(err)
		}
		if changes, more, err := c.Changes(t.Context(), "abc"); err != nil || len(changes) != 1 || more != want {
			t.Errorf("%q: %v, more: %t, %v", said, changes, more, err)
		}
	}
}
