package signin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/test/env"
)

// service is a sign-in that is served, with one page behind it.
type service struct {
	*SignIn
	dex provider
	now time.Time
}

// provider is what all OpenID Connect providers of a test can.
type provider interface {
	Browse(ctx context.Context, jar http.CookieJar, email, pageURL, stop string) (*url.URL, error)
}

// listen serves what is mounted later.
func listen(t *testing.T) (mux *http.ServeMux, publicURL string) {
	t.Helper()
	mux = http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	// By name: that is what providers let a public client use.
	return mux, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

func start(t *testing.T, dex *env.Dex) *service {
	t.Helper()
	mux, publicURL := listen(t)
	s := &service{dex: dex, now: time.Now(), SignIn: &SignIn{
		Issuer: issuer(t, dex.Issuer, dex.ClientID, "email"), ClientID: dex.ClientID, Scopes: []string{"openid", "email", "groups"},
		PublicURL: publicURL,
	}}
	s.serve(t, mux)
	return s
}

// serve mounts the sign-in, and a page that says who is signed in.
func (s *service) serve(t *testing.T, mux *http.ServeMux) {
	t.Helper()
	s.Seal, s.Log, s.Now = seal(t), slog.New(slog.DiscardHandler), func() time.Time { return s.now }
	s.Mount(mux)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.Identity(r)
		if !ok {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, r.URL.Path+" for "+who.Username)
	})
}

func seal(t *testing.T) *Seal {
	t.Helper()
	s, err := NewSeal(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func issuer(t *testing.T, address, clientID, claim string) *login.Issuer {
	t.Helper()
	i, err := login.NewIssuer(login.Config{
		URL: address, Audiences: []string{clientID}, Username: login.Mapping{Claim: claim, Prefix: "oidc:"},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = i.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return i
}

// browser has cookies, and does not follow redirects by itself.
type browser struct {
	*service
	jar http.CookieJar
}

func (s *service) browser(t *testing.T) *browser {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.Issuer.(*login.Issuer).Ready() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(s.Issuer.(*login.Issuer).Ready())
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{service: s, jar: jar}
}

// answer is what came back, read to its end.
type answer struct {
	status   int
	location string
	header   http.Header
}

func (b *browser) send(t *testing.T, method, address string) (a answer, body string) {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.PublicURL + address
	}
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: b.jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{r.StatusCode, r.Header.Get("Location"), r.Header}, string(content)
}

// signIn signs Alice in, up to the page that she wanted.
func (b *browser) signIn(t *testing.T, then string) *url.URL {
	t.Helper()
	last, err := b.dex.Browse(t.Context(), b.jar, env.Alice, b.PublicURL+"/signin?then="+url.QueryEscape(then), "")
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// answer signs Alice in at the issuer, and gives the address that it sends her
// back to, without going there.
func (b *browser) answer(t *testing.T) *url.URL {
	t.Helper()
	callback, err := b.dex.Browse(t.Context(), b.jar, env.Alice, b.PublicURL+"/signin", b.PublicURL+callbackPath)
	if err != nil {
		t.Fatal(err)
	}
	return callback
}

// cookie is one of the browser's, nil when it has none of that name.
func (b *browser) cookie(t *testing.T, name string) *http.Cookie {
	t.Helper()
	u, err := url.Parse(b.PublicURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.jar.Cookies(u) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (b *browser) setCookie(t *testing.T, name, value string) {
	t.Helper()
	u, err := url.Parse(b.PublicURL)
	if err != nil {
		t.Fatal(err)
	}
	b.jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

// refused checks that an answer is a page in words, and that nobody is signed
// in afterwards.
func (b *browser) refused(t *testing.T, address string, status int, words string) {
	t.Helper()
	r, body := b.send(t, "GET", address)
	if r.status != status || !strings.Contains(body, words) || !strings.Contains(body, "<h1>You are not signed in</h1>") {
		t.Errorf("got %d, want %d and %q:\n%s", r.status, status, words, body)
	}
	if strings.Contains(body, "oauth2:") || strings.Contains(body, "Bad Request") {
		t.Errorf("the page shows internals:\n%s", body)
	}
	if csp := r.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy is %q", csp)
	}
	b.nobody(t)
}

func (b *browser) nobody(t *testing.T) {
	t.Helper()
	if r, body := b.send(t, "GET", "/page"); r.status != http.StatusUnauthorized {
		t.Errorf("somebody is signed in: %s", body)
	}
}

func (b *browser) somebody(t *testing.T) {
	t.Helper()
	if r, body := b.send(t, "GET", "/page"); r.status != http.StatusOK || body != "/page for oidc:"+env.Alice {
		t.Errorf("got %d %q", r.status, body)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	dex := env.StartForTest(t, env.Options{Clusters: []string{}, Dex: true}).Dex

	t.Run("who signs in comes back to the page that they wanted", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		b.nobody(t)
		if last := b.signIn(t, "/clusters/x?a=b"); last.String() != b.PublicURL+"/clusters/x?a=b" {
			t.Errorf("came back to %s", last)
		}
		b.somebody(t)
		if b.cookie(t, flowCookie) != nil {
			t.Error("the cookie of the flow is still there")
		}
	})
	t.Run("who signs out is signed out", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		b.signIn(t, "/")
		if r, _ := b.send(t, "GET", "/signout"); r.status == http.StatusSeeOther {
			t.Error("a link signs out")
		}
		b.somebody(t)
		if r, _ := b.send(t, "POST", "/signout"); r.status != http.StatusSeeOther || r.location != "/" {
			t.Errorf("got %d to %s", r.status, r.location)
		}
		b.nobody(t)
	})
	t.Run("the issuer is asked for a code with PKCE, state, nonce and the one redirect", func(t *testing.T) {
		t.Parallel()
		testRequest(t, start(t, dex).browser(t))
	})
	t.Run("a session ends after eight hours", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		b.signIn(t, "/")
		began := b.now
		b.now = began.Add(8*time.Hour - time.Minute)
		b.somebody(t)
		b.now = began.Add(8*time.Hour + time.Minute)
		b.nobody(t)
	})
	t.Run("a changed session is none", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		b.signIn(t, "/")
		good := b.cookie(t, sessionCookie).Value
		for i := 0; i < len(good); i += 7 {
			other := byte('A')
			if good[i] == other {
				other = 'B'
			}
			b.setCookie(t, sessionCookie, good[:i]+string(other)+good[i+1:])
			b.nobody(t)
		}
		b.setCookie(t, sessionCookie, good)
		b.somebody(t)
		b.Seal = seal(t)
		b.nobody(t)
	})
	t.Run("a session of another issuer is none", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		b.signIn(t, "/")
		b.Issuer = issuer(t, "https://other.example.com", "x", "sub")
		b.nobody(t)
	})
	t.Run("what is sealed for one cookie counts in no other", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		value, err := b.Seal.seal(flowCookie, session{Issuer: dex.Issuer, Username: "oidc:mallory", Expires: b.now.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		b.setCookie(t, sessionCookie, value)
		b.nobody(t)
	})
	t.Run("an altered state is refused", func(t *testing.T) {
		t.Parallel()
		for _, state := range []string{"", "guess"} {
			b := start(t, dex).browser(t)
			callback := b.answer(t)
			query := callback.Query()
			query.Set("state", state)
			callback.RawQuery = query.Encode()
			b.refused(t, callback.String(), http.StatusBadRequest, "was not begun in this browser")
		}
	})
	t.Run("a sign-in that another browser began is refused", func(t *testing.T) {
		t.Parallel()
		s := start(t, dex)
		s.browser(t).refused(t, s.browser(t).answer(t).String(), http.StatusBadRequest, "was not begun in this browser")
	})
	t.Run("a sign-in that took too long is refused", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		callback := b.answer(t)
		b.now = b.now.Add(flowLifetime + time.Second)
		b.refused(t, callback.String(), http.StatusBadRequest, "more than 10 minutes ago")
	})
	t.Run("a replayed code is refused", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		callback := b.answer(t)
		kept := b.cookie(t, flowCookie).Value
		if r, _ := b.send(t, "GET", callback.String()); r.status != http.StatusSeeOther {
			t.Fatal(r.status)
		}
		b.send(t, "POST", "/signout")
		b.refused(t, callback.String(), http.StatusBadRequest, "was not begun in this browser")
		// Even with the cookie of then: the issuer takes a code once.
		b.setCookie(t, flowCookie, kept)
		b.refused(t, callback.String(), http.StatusUnauthorized, "does not take this sign-in&#39;s code")
	})
	t.Run("a code without its PKCE verifier is refused", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		callback := b.answer(t)
		b.change(t, func(f *flow) { f.Verifier = strings.Repeat("x", len(f.Verifier)) })
		b.refused(t, callback.String(), http.StatusUnauthorized, "does not take this sign-in&#39;s code")
	})
	t.Run("an ID token with another nonce is refused", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		callback := b.answer(t)
		b.change(t, func(f *flow) { f.Nonce = "another" })
		b.refused(t, callback.String(), http.StatusUnauthorized, "from another sign-in")
	})
	t.Run("what the issuer says is shown as text", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		state := b.answer(t).Query().Get("state")
		b.refused(t, callbackPath+"?error=access_denied&error_description=%3Cscript%3E&state="+state, http.StatusForbidden, "It said: access_denied &lt;script&gt;")
	})
	t.Run("an issuer that is down is said", func(t *testing.T) {
		t.Parallel()
		b := start(t, dex).browser(t)
		b.Issuer = issuer(t, "http://localhost:1", "x", "sub")
		b.refused(t, "/signin", http.StatusServiceUnavailable, "Sign-in is not possible just now")
	})
}

// change changes the browser's flow as only who has the key can.
func (b *browser) change(t *testing.T, how func(*flow)) {
	t.Helper()
	var f []flow
	if err := b.Seal.open(flowCookie, b.cookie(t, flowCookie).Value, &f); err != nil || len(f) != 1 {
		t.Fatal(f, err)
	}
	how(&f[0])
	value, err := b.Seal.seal(flowCookie, f)
	if err != nil {
		t.Fatal(err)
	}
	b.setCookie(t, flowCookie, value)
}

func testRequest(t *testing.T, b *browser) {
	request, err := http.NewRequestWithContext(t.Context(), "GET", b.PublicURL+"/signin?redirect_uri=https://evil.example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example.com"
	request.Header.Set("X-Forwarded-Host", "evil.example.com")
	r, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	to, err := r.Location()
	if err != nil {
		t.Fatal(r.Status, err)
	}
	q := to.Query()
	if q.Get("redirect_uri") != b.PublicURL+"/signin/callback" || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("code_challenge") == "" || len(q.Get("state")) < 20 || len(q.Get("nonce")) < 20 || q.Get("client_id") != b.ClientID {
		t.Errorf("sent to %s", to)
	}
	for _, secret := range []string{"verifier", "secret"} {
		if strings.Contains(to.RawQuery, secret) {
			t.Errorf("the address has a %s: %s", secret, to)
		}
	}
}

// TestAnotherMakeOfProvider signs in where little is as at Dex, by nothing but
// another configuration.
func TestAnotherMakeOfProvider(t *testing.T) {
	t.Parallel()
	mux, publicURL := listen(t)
	z := env.StartForTest(t, env.Options{Clusters: []string{}, Zitadel: true, WebRedirect: publicURL + callbackPath}).Zitadel
	s := &service{dex: z, now: time.Now(), SignIn: &SignIn{Scopes: []string{"openid", "email", "groups"}, PublicURL: publicURL}}
	s.Issuer = issuer(t, z.Issuer, z.ClientID, "sub")
	s.serve(t, mux)
	for name, c := range map[string]struct{ id, secret string }{
		"a public client":            {z.ClientID, ""},
		"a client that has a secret": {z.WebClientID, z.WebClientSecret},
	} {
		t.Run(name, func(t *testing.T) {
			s.ClientID, s.ClientSecret = c.id, c.secret
			b := s.browser(t)
			if last := b.signIn(t, "/clusters"); last.String() != publicURL+"/clusters" {
				t.Errorf("came back to %s", last)
			}
			b.somebody(t)
		})
	}
	t.Run("a wrong secret", func(t *testing.T) {
		s.ClientID, s.ClientSecret = z.WebClientID, "guess"
		b := s.browser(t)
		b.refused(t, b.answer(t).String(), http.StatusUnauthorized, "does not take this sign-in&#39;s code")
	})
	t.Run("a redirect that was not registered", func(t *testing.T) {
		s.ClientID, s.PublicURL = z.WebClientID, strings.Replace(publicURL, "localhost", "127.0.0.1", 1)
		b := s.browser(t)
		if last, err := b.dex.Browse(t.Context(), b.jar, env.Alice, b.PublicURL+"/signin", b.PublicURL+callbackPath); err == nil {
			t.Errorf("came back to %s", last)
		}
	})
}

func TestCookies(t *testing.T) {
	for public, prefix := range map[string]string{"https://gitbind.example.com": "__Host-", "http://localhost:8080": ""} {
		s := &SignIn{PublicURL: public, Seal: seal(t), Now: time.Now}
		w := httptest.NewRecorder()
		if err := s.setSession(w, login.Identity{Issuer: "i", Subject: "s", Username: "u"}); err != nil {
			t.Fatal(err)
		}
		if err := s.setFlows(w, []flow{{}}); err != nil {
			t.Fatal(err)
		}
		if err := s.setFlows(w, nil); err != nil {
			t.Fatal(err)
		}
		s.clearSession(w)
		cookies := w.Result().Cookies()
		if len(cookies) != 4 {
			t.Fatalf("%d cookies", len(cookies))
		}
		for _, c := range cookies {
			if !strings.HasPrefix(c.Name, prefix+"gitbind-") || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure != (prefix != "") || c.Path != "/" || c.Domain != "" {
				t.Errorf("%s: %s", public, c.Raw)
			}
		}
		if cookies[0].MaxAge != 8*60*60 || cookies[1].MaxAge != 600 || cookies[2].MaxAge != -1 || cookies[3].MaxAge != -1 {
			t.Errorf("ages %d %d %d %d", cookies[0].MaxAge, cookies[1].MaxAge, cookies[2].MaxAge, cookies[3].MaxAge)
		}
	}
}

func TestASessionThatIsTooLargeIsSaid(t *testing.T) {
	s := &SignIn{PublicURL: "https://gitbind.example.com", Seal: seal(t), Now: time.Now}
	w := httptest.NewRecorder()
	err := s.setSession(w, login.Identity{Username: "u", Groups: strings.Split(strings.Repeat("a-group-with-a-name,", 300), ",")})
	if err == nil || !strings.Contains(err.Error(), "301 groups") || len(w.Result().Cookies()) != 0 {
		t.Errorf("got %v, cookies %v", err, w.Result().Cookies())
	}
}

func TestAfterSigningInNobodyIsSentElsewhere(t *testing.T) {
	for then, want := range map[string]string{
		"":                             "/",
		"/":                            "/",
		"/clusters?q=a%20b":            "/clusters?q=a%20b",
		"/a/%2e%2e/b":                  "/a/%2e%2e/b",
		"clusters":                     "/",
		"//evil.example.com":           "/",
		"///evil.example.com":          "/",
		`/\evil.example.com`:           "/",
		`\\evil.example.com`:           "/",
		"https://evil.example.com":     "/",
		"https:evil.example.com":       "/",
		"javascript:alert(1)":          "/",
		"/\t/evil.example.com":         "/",
		"/\r\nSet-Cookie: a=b":         "/",
		"http://user@evil.example":     "/",
		"/signin":                      "/",
		"/signin?then=/signin":         "/",
		"/signin/callback":             "/",
		"/signout":                     "/",
		"/" + strings.Repeat("x", 2e3): "/",
	} {
		if got := local(then); got != want {
			t.Errorf("%q leads to %q, want %q", then, got, want)
		}
	}
}
