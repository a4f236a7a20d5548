package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/test/env"
)

const backendURL = "https://gitbind.example.com"

// printed is what the person reads, safe to read while it is written.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// person is somebody at a terminal, with a browser.
type person struct {
	*SignIn
	out      *printed
	provider Provider
	dex      *env.Dex
	// asked counts how often the browser was opened.
	asked int
	// browser is what happens then.
	browser func(ctx context.Context, address string) error
}

func newPerson(t *testing.T, dex *env.Dex) *person {
	t.Helper()
	var browsers sync.WaitGroup
	t.Cleanup(browsers.Wait)
	p := &person{out: &printed{}, dex: dex, provider: Provider{Issuer: dex.Issuer, ClientID: dex.ClientID}}
	p.browser = func(ctx context.Context, address string) error { return dex.Browser(ctx, env.Alice, address) }
	p.SignIn = &SignIn{
		Sessions: session.Store{Dir: filepath.Join(t.TempDir(), "sessions")}, HTTP: &http.Client{Timeout: time.Minute},
		Out: p.out, Now: time.Now,
		OpenBrowser: func(ctx context.Context, address string) error {
			p.asked++
			browsers.Go(func() {
				if err := p.browser(ctx, address); err != nil && ctx.Err() == nil {
					t.Errorf("browser: %v", err)
				}
			})
			return nil
		},
	}
	return p
}

func (p *person) token(t *testing.T, how How, renew bool) string {
	t.Helper()
	token, err := p.Token(t.Context(), backendURL, p.provider, how, renew)
	if err != nil {
		t.Fatal(err)
	}
	p.check(t, token)
	return token
}

// check verifies a token as a backend would.
func (p *person) check(t *testing.T, raw string) {
	t.Helper()
	provider, err := oidc.NewProvider(t.Context(), p.dex.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	token, err := provider.Verifier(&oidc.Config{ClientID: p.dex.ClientID}).Verify(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	var claims struct{ Email string }
	if err := token.Claims(&claims); err != nil || claims.Email != env.Alice {
		t.Fatalf("the token is of %q: %v", claims.Email, err)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	dex := env.StartForTest(t, env.Options{Clusters: []string{}, Dex: true}).Dex

	// One after the other: Dex keeps one refresh token for a person and a client, and
	// each sign-in makes the one before worthless.
	t.Run("with the browser, once", func(t *testing.T) {
		p := newPerson(t, dex)
		first := p.token(t, How{}, false)
		if !strings.Contains(p.out.String(), "Signed in as "+env.Alice) {
			t.Errorf("it printed %q", p.out)
		}
		if second := p.token(t, How{}, false); second != first || p.asked != 1 {
			t.Errorf("asked %d times", p.asked)
		}
	})
	t.Run("the sign-in is kept for its owner only", func(t *testing.T) {
		p := newPerson(t, dex)
		p.token(t, How{}, false)
		entries, err := os.ReadDir(p.Sessions.Dir)
		if err != nil || len(entries) == 0 {
			t.Fatal(entries, err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err != nil || strings.HasSuffix(e.Name(), ".json") && info.Mode() != 0o600 {
				t.Errorf("%s has mode %s: %v", e.Name(), info.Mode(), err)
			}
		}
		if info, err := os.Stat(p.Sessions.Dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder has mode %s: %v", info.Mode(), err)
		}
	})
	t.Run("nothing printed is a secret", func(t *testing.T) {
		p := newPerson(t, dex)
		token := p.token(t, How{}, false)
		saved, err := p.Sessions.Load(backendURL)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{token, saved.RefreshToken} {
			if secret == "" || strings.Contains(p.out.String(), secret) {
				t.Error("it printed a token, or has none")
			}
		}
	})
	t.Run("a token that is about to expire is renewed without asking", func(t *testing.T) {
		p := newPerson(t, dex)
		first := p.token(t, How{}, false)
		p.Now = func() time.Time { return time.Now().Add(24*time.Hour - leeway/2) }
		if second := p.token(t, How{}, false); second == first || p.asked != 1 {
			t.Errorf("asked %d times", p.asked)
		}
	})
	t.Run("a refresh token is asked for whatever the backend's scopes", func(t *testing.T) {
		p := newPerson(t, dex)
		p.provider.Scopes = []string{"openid", "email"}
		p.token(t, How{}, false)
		if saved, err := p.Sessions.Load(backendURL); err != nil || saved.RefreshToken == "" {
			t.Errorf("there is none: %v", err)
		}
	})
	t.Run("a token that the backend refuses is renewed without asking", func(t *testing.T) {
		p := newPerson(t, dex)
		first := p.token(t, How{}, false)
		if second := p.token(t, How{}, true); second == first || p.asked != 1 {
			t.Errorf("asked %d times", p.asked)
		}
	})
	t.Run("a refresh token that the issuer refuses leads to a new sign-in", func(t *testing.T) {
		p := newPerson(t, dex)
		p.token(t, How{}, false)
		saved, err := p.Sessions.Load(backendURL)
		if err != nil {
			t.Fatal(err)
		}
		saved.RefreshToken, saved.Expiry = "none", time.Now()
		if err := p.Sessions.Save(saved); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Silent(t.Context(), backendURL); !errors.Is(err, session.ErrNone) {
			t.Errorf("without asking: %v", err)
		}
		if p.token(t, How{}, false); p.asked != 2 {
			t.Errorf("asked %d times", p.asked)
		}
	})
	t.Run("another issuer's sign-in is not used", func(t *testing.T) {
		p := newPerson(t, dex)
		if err := p.Sessions.Save(session.Session{BackendURL: backendURL, Issuer: "https://other.example.com", ClientID: dex.ClientID, IDToken: "x", Expiry: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if p.token(t, How{}, false); p.asked != 1 {
			t.Errorf("asked %d times", p.asked)
		}
	})
	t.Run("with a device code", func(t *testing.T) {
		p := newPerson(t, dex)
		done := make(chan error, 1)
		go func() {
			address := waitFor(t.Context(), p.out, regexp.MustCompile(`https?://\S+`))
			done <- dex.Browser(t.Context(), env.Alice, address)
		}()
		p.token(t, How{Device: true}, false)
		if err := <-done; err != nil || p.asked != 0 {
			t.Errorf("the browser was opened %d times: %v", p.asked, err)
		}
		if _, username, err := p.Silent(t.Context(), backendURL); err != nil || username != env.Alice {
			t.Errorf("kept for %q: %v", username, err)
		}
	})
	t.Run("a forged callback ends nothing and is not taken", func(t *testing.T) {
		p := newPerson(t, dex)
		p.browser = func(ctx context.Context, address string) error {
			callback := parameter(t, address, "redirect_uri")
			for _, query := range []string{"", "?code=x", "?code=x&state=guess", "?error=access_denied&state=guess"} {
				if status := fetch(ctx, t, callback+query); status != http.StatusBadRequest {
					t.Errorf("%q is answered with %d", query, status)
				}
			}
			return dex.Browser(ctx, env.Alice, address)
		}
		p.token(t, How{}, false)
	})
	t.Run("a person who refuses is not signed in", func(t *testing.T) {
		p := newPerson(t, dex)
		p.browser = func(ctx context.Context, address string) error {
			answer := parameter(t, address, "redirect_uri") + "?error=access_denied&error_description=no&state=" + parameter(t, address, "state")
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, answer, nil)
			if err != nil {
				return err
			}
			// It is heard, and what ends then may end before the page is there.
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
			return nil
		}
		_, err := p.Token(t.Context(), backendURL, p.provider, How{}, false)
		if err == nil || !strings.Contains(err.Error(), "access_denied no") {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("the request carries PKCE, state and nonce", func(t *testing.T) {
		p := newPerson(t, dex)
		p.browser = func(ctx context.Context, address string) error {
			if parameter(t, address, "code_challenge_method") != "S256" || parameter(t, address, "nonce") == "" || len(parameter(t, address, "state")) < 20 {
				t.Errorf("address is %s", address)
			}
			return dex.Browser(ctx, env.Alice, address)
		}
		p.token(t, How{}, false)
	})
	t.Run("a token with another nonce, audience or issuer is refused", func(t *testing.T) {
		p := newPerson(t, dex)
		raw, err := dex.IDToken(t.Context(), env.Alice)
		if err != nil {
			t.Fatal(err)
		}
		answer := (&oauth2.Token{}).WithExtra(map[string]any{"id_token": raw})
		issuer, err := p.discover(t.Context(), p.provider)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := issuer.verify(t.Context(), answer, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := issuer.verify(t.Context(), answer, "ours"); err == nil {
			t.Error("another nonce is taken")
		}
		other, err := p.discover(t.Context(), Provider{Issuer: dex.Issuer, ClientID: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.verify(t.Context(), answer, ""); err == nil {
			t.Error("another client's token is taken")
		}
		forged := (&oauth2.Token{}).WithExtra(map[string]any{"id_token": raw[:len(raw)-10] + "AAAAAAAAAA"})
		if _, err := issuer.verify(t.Context(), forged, ""); err == nil {
			t.Error("a token with a wrong signature is taken")
		}
	})
	t.Run("an interrupted sign-in ends", func(t *testing.T) {
		p := newPerson(t, dex)
		ctx, cancel := context.WithCancel(t.Context())
		p.browser = func(context.Context, string) error { cancel(); return nil }
		if _, err := p.Token(ctx, backendURL, p.provider, How{}, false); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestNoPlainHTTPToAnotherMachine(t *testing.T) {
	s := &SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: &http.Client{}, Out: &printed{}, Now: time.Now}
	_, err := s.Token(t.Context(), backendURL, Provider{Issuer: "http://dex.example.com", ClientID: "x"}, How{}, false)
	if err == nil || !strings.Contains(err.Error(), "is not https") {
		t.Errorf("error is %v", err)
	}
}

// An issuer that is started again, or what is in front of it, says nothing of a refresh token.
func TestOnlyAnIssuerThatRefusesARefreshTokenEndsASignIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status            int
		contentType, body string
		ends              bool
	}{
		"refused":                     {http.StatusBadRequest, "application/json", `{"error": "invalid_grant"}`, true},
		"refused as forbidden":        {http.StatusForbidden, "application/json", `{"error": "invalid_grant"}`, true},
		"refused in HTML":             {http.StatusBadRequest, "text/html", "<p>Bad Request</p>", true},
		"refused without a word":      {http.StatusUnauthorized, "", "", true},
		"forbidden by a proxy":        {http.StatusForbidden, "text/html", "<p>Forbidden</p>", false},
		"away":                        {http.StatusServiceUnavailable, "text/html", "<p>Service Unavailable</p>", false},
		"away, and says so":           {http.StatusServiceUnavailable, "application/json", `{"error": "temporarily_unavailable"}`, false},
		"in trouble":                  {http.StatusInternalServerError, "application/json", `{"error": "server_error"}`, false},
		"asked too often":             {http.StatusTooManyRequests, "application/json", `{"error": "too_many_requests"}`, false},
		"unknown to a proxy":          {http.StatusNotFound, "text/plain", "404 page not found", false},
		"unknown to a proxy, in JSON": {http.StatusNotFound, "application/json", `{"message": "no route"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var issuer string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					w.Header().Set("Content-Type", c.contentType)
					w.WriteHeader(c.status)
					fmt.Fprint(w, c.body)
					return
				}
				fmt.Fprintf(w, `{"issuer": "%[1]s", "authorization_endpoint": "%[1]s/auth", "token_endpoint": "%[1]s/token", "jwks_uri": "%[1]s/keys"}`, issuer)
			}))
			defer server.Close()
			issuer = server.URL
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			s := &SignIn{
				Sessions: session.Store{Dir: t.TempDir()}, HTTP: server.Client(), Out: &printed{}, Now: time.Now,
				OpenBrowser: func(context.Context, string) error { asked++; cancel(); return nil },
			}
			kept := session.Session{BackendURL: backendURL, Issuer: issuer, ClientID: "ours", Username: env.Alice, IDToken: "expired", RefreshToken: "kept"}
			if err := s.Sessions.Save(kept); err != nil {
				t.Fatal(err)
			}
			_, _, silent := s.Silent(ctx, backendURL)
			_, err := s.Token(ctx, backendURL, Provider{Issuer: issuer, ClientID: "ours"}, How{}, false)
			if c.ends {
				if !errors.Is(silent, session.ErrNone) || asked != 1 {
					t.Errorf("without asking: %v; asked %d times: %v", silent, asked, err)
				}
				return
			}
			for _, err := range []error{silent, err} {
				if err == nil || errors.Is(err, session.ErrNone) || !strings.Contains(err.Error(), issuer+" does not answer") || !strings.Contains(err.Error(), "try again") {
					t.Errorf("error is %v", err)
				}
			}
			if asked != 0 {
				t.Error("the person was asked")
			}
			if saved, err := s.Sessions.Load(backendURL); err != nil || saved.RefreshToken != "kept" {
				t.Errorf("saved is %+v: %v", saved, err)
			}
		})
	}
}

func TestBrowserCommand(t *testing.T) {
	for _, c := range []struct {
		goos string
		env  map[string]string
		want string
	}{
		{"linux", map[string]string{"BROWSER": "firefox --new-tab", "DISPLAY": ":0"}, "[firefox --new-tab]"},
		{"linux", map[string]string{"DISPLAY": ":0"}, "[xdg-open]"},
		{"linux", map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, "[xdg-open]"},
		{"linux", nil, "[]"},
		{"darwin", nil, "[open]"},
		{"windows", nil, "[rundll32 url.dll,FileProtocolHandler]"},
	} {
		if got := fmt.Sprint(browserCommand(c.goos, func(k string) string { return c.env[k] })); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.goos, c.env, got, c.want)
		}
	}
}

func waitFor(ctx context.Context, p *printed, what *regexp.Regexp) string {
	for ctx.Err() == nil {
		if found := what.FindString(p.String()); found != "" {
			return found
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ""
}

func parameter(t *testing.T, address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		t.Error(err)
		return ""
	}
	return u.Query().Get(name)
}

func fetch(ctx context.Context, t *testing.T, address string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}
