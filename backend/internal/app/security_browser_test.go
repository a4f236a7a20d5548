package app

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"gitbind.dev/test/env"
)

// browser is one with cookies, which shows each answer as it is.
type browser struct {
	*security
	jar http.CookieJar
}

func (s *security) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{security: s, jar: jar}
}

// answer is what came back, read to its end.
type answer struct {
	status   int
	location string
	header   http.Header
}

func (b *browser) send(t *testing.T, method, address string, header http.Header) (a answer, body string) {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.url + address
	}
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	client := &http.Client{Jar: b.jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Location"), resp.Header}, string(content)
}

// signedIn tells whether the browser sees Alice's cluster.
func (b *browser) signedIn(t *testing.T) bool {
	t.Helper()
	resp, body := b.send(t, "GET", "/clusters/"+b.alice.ID, nil)
	return resp.status == http.StatusOK && strings.Contains(body, b.alice.ID)
}

// answer signs Alice in at the issuer, and gives the address that it sends her
// back to, without going there.
func (b *browser) answer(t *testing.T) *url.URL {
	t.Helper()
	callback, err := b.Dex.Browse(t.Context(), b.jar, env.Alice, b.url+"/signin", b.url+"/signin/callback")
	if err != nil {
		t.Fatal(err)
	}
	return callback
}

func (b *browser) cookie(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.jar.Cookies(u) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (b *browser) setCookie(t *testing.T, name, value string) {
	t.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	b.jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

// refused checks that an address signs nobody in, and says so in words.
func (b *browser) refused(t *testing.T, what, address string, status int) {
	t.Helper()
	resp, body := b.send(t, "GET", address, nil)
	if resp.status != status || !strings.Contains(body, "You are not signed in") || b.signedIn(t) {
		t.Errorf("%s: %d, want %d; signed in: %t\n%s", what, resp.status, status, b.signedIn(t), body)
	}
}

func (s *security) testBrowser(t *testing.T) {
	b := s.browser(t)
	if b.signedIn(t) {
		t.Fatal("before she signed in")
	}
	last, err := s.Dex.Browse(t.Context(), b.jar, env.Alice, s.url+"/signin?then="+url.QueryEscape("/clusters/"+s.alice.ID), s.url+"/clusters/")
	if err != nil {
		t.Fatal(err)
	}
	if last.String() != s.url+"/clusters/"+s.alice.ID || !b.signedIn(t) {
		t.Errorf("came to %s, signed in: %t", last, b.signedIn(t))
	}
	s.secret(b.cookie(t, "gitbind-session"))
	if resp, body := b.send(t, "GET", "/clusters/"+s.bob.ID, nil); resp.status != http.StatusNotFound {
		t.Errorf("Bob's cluster: %d\n%s", resp.status, body)
	}
	if resp, _ := b.send(t, "POST", "/signout", nil); resp.status != http.StatusSeeOther || b.signedIn(t) {
		t.Errorf("after she signed out: %d", resp.status)
	}
}

func (s *security) testReplay(t *testing.T) {
	b := s.browser(t)
	callback := b.answer(t)
	flow := b.cookie(t, "gitbind-signin")
	s.secret(callback.Query().Get("code"), callback.Query().Get("state"), flow)
	if resp, _ := b.send(t, "GET", callback.String(), nil); resp.status != http.StatusSeeOther || !b.signedIn(t) {
		t.Fatalf("the first time: %d", resp.status)
	}
	b.send(t, "POST", "/signout", nil)
	b.refused(t, "the second time", callback.String(), http.StatusBadRequest)
	b.setCookie(t, "gitbind-signin", flow)
	b.refused(t, "with the cookie of then", callback.String(), http.StatusUnauthorized)
	stolen := s.browser(t)
	stolen.refused(t, "in another browser", b.answer(t).String(), http.StatusBadRequest)
}

func (s *security) testState(t *testing.T) {
	for what, state := range map[string]string{"none": "", "a guess": "guess", "that of another sign-in": s.browser(t).answer(t).Query().Get("state")} {
		b := s.browser(t)
		callback := b.answer(t)
		query := callback.Query()
		query.Set("state", state)
		callback.RawQuery = query.Encode()
		b.refused(t, what, callback.String(), http.StatusBadRequest)
	}
}

func (s *security) testRedirect(t *testing.T) {
	b := s.browser(t)
	for _, query := range []string{"redirect_uri=https://evil.example.com", "then=https://evil.example.com", "then=//evil.example.com"} {
		resp, _ := b.send(t, "GET", "/signin?"+query, http.Header{"X-Forwarded-Host": {"evil.example.com"}, "Forwarded": {"host=evil.example.com"}, "Origin": {"https://evil.example.com"}})
		to, err := url.Parse(resp.location)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(to.String(), s.Dex.Issuer+"/") || to.Query().Get("redirect_uri") != s.url+"/signin/callback" || to.Query().Get("code_challenge_method") != "S256" {
			t.Errorf("%s leads to %s", query, to)
		}
	}
	for _, then := range []string{"https://evil.example.com", "//evil.example.com", `/\evil.example.com`, "javascript:alert(1)"} {
		b := s.browser(t)
		callback, err := s.Dex.Browse(t.Context(), b.jar, env.Alice, s.url+"/signin?then="+url.QueryEscape(then), s.url+"/signin/callback")
		if err != nil {
			t.Fatal(err)
		}
		if resp, _ := b.send(t, "GET", callback.String(), nil); resp.status != http.StatusSeeOther || resp.location != "/" {
			t.Errorf("%s: %d to %s", then, resp.status, resp.location)
		}
	}
	// The issuer is the one that must refuse it, and does.
	resp, _ := b.send(t, "GET", "/signin", nil)
	to, err := url.Parse(resp.location)
	if err != nil {
		t.Fatal(err)
	}
	query := to.Query()
	query.Set("redirect_uri", "https://evil.example.com/signin/callback")
	to.RawQuery = query.Encode()
	if _, err := s.Dex.Browse(t.Context(), b.jar, env.Alice, to.String(), "https://evil.example.com"); err == nil {
		t.Error("the issuer sends a code to a foreign address")
	}
}

// sessionOf is Alice's session, as the backend keeps it.
func (s *security) sessionOf(expires time.Time) map[string]any {
	return map[string]any{"issuer": s.Dex.Issuer, "subject": s.aliceSubject, "username": "oidc:" + env.Alice, "expires": expires}
}

// sealed seals as the backend does, with its key.
func (s *security) sealed(t *testing.T, purpose string, v any) string {
	t.Helper()
	return seal(t, sessionKey(), purpose, v)
}

func seal(t *testing.T, key []byte, purpose string, v any) string {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, []byte(purpose)))
}

func (s *security) testExpiredSession(t *testing.T) {
	b := s.browser(t)
	b.setCookie(t, "gitbind-session", s.sealed(t, "gitbind-session", s.sessionOf(time.Now().Add(time.Minute))))
	if !b.signedIn(t) {
		t.Fatal("a session that has not ended is none: this test would see nothing")
	}
	b.setCookie(t, "gitbind-session", s.sealed(t, "gitbind-session", s.sessionOf(time.Now().Add(-time.Second))))
	if b.signedIn(t) {
		t.Error("an expired session counts")
	}
}

func (s *security) testForgedSession(t *testing.T) {
	good := s.sessionOf(time.Now().Add(time.Hour))
	plain, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	other := s.sessionOf(time.Now().Add(time.Hour))
	other["issuer"] = s.ci.url
	value := s.sealed(t, "gitbind-session", good)
	for what, value := range map[string]string{
		"not sealed":             base64.RawURLEncoding.EncodeToString(plain),
		"by another key":         seal(t, []byte(strings.Repeat("k", 32)), "gitbind-session", good),
		"the cookie of a flow":   s.sealed(t, "gitbind-signin", good),
		"of another issuer":      s.sealed(t, "gitbind-session", other),
		"cut":                    value[:len(value)-4],
		"with another end":       value[:len(value)-4] + "AAAA",
		"an ID token":            s.tokens[env.Alice],
		"a konnector credential": s.alice.Credential.Password,
	} {
		b := s.browser(t)
		b.setCookie(t, "gitbind-session", value)
		if b.signedIn(t) {
			t.Errorf("a session %s counts", what)
		}
	}
}

func (s *security) testOtherSite(t *testing.T) {
	b := s.browser(t)
	b.setCookie(t, "gitbind-session", s.sealed(t, "gitbind-session", s.sessionOf(time.Now().Add(time.Hour))))
	for what, header := range map[string]http.Header{
		"another site":              {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example.com"}},
		"a neighbour of the domain": {"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://evil.example.com"}},
		"an older browser":          {"Origin": {"https://evil.example.com"}},
		"a sandboxed page":          {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"null"}},
	} {
		for _, path := range []string{"/signout", "/bindings"} {
			if resp, _ := b.send(t, "POST", path, header); resp.status != http.StatusForbidden {
				t.Errorf("%s at %s: %d", what, path, resp.status)
			}
		}
	}
	if !b.signedIn(t) {
		t.Error("another site signed her out")
	}
	if resp, _ := b.send(t, "POST", "/signout", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {s.url}}); resp.status != http.StatusSeeOther {
		t.Errorf("our own page: %d", resp.status)
	}
}

func (s *security) testSessionIsForPages(t *testing.T) {
	b := s.browser(t)
	b.setCookie(t, "gitbind-session", s.sealed(t, "gitbind-session", s.sessionOf(time.Now().Add(time.Hour))))
	if !b.signedIn(t) {
		t.Fatal("not signed in")
	}
	for _, path := range []string{"/v1/clusters", "/v1/catalog", "/v1/events?cluster=" + s.alice.ID, "/git/" + s.alice.ID + ".git/info/refs?service=git-upload-pack"} {
		if resp, body := b.send(t, "GET", path, nil); resp.status != http.StatusUnauthorized {
			t.Errorf("%s: %d\n%s", path, resp.status, body)
		}
	}
}

func (s *security) testHeaders(t *testing.T) {
	b := s.browser(t)
	for _, path := range []string{"/", "/signin/callback", "/signin", "/v1/info", "/v1/clusters", "/git/" + s.alice.ID + ".git/info/refs?service=git-upload-pack", "/nothing", "/static/nothing"} {
		resp, _ := b.send(t, "GET", path, nil)
		h := resp.header
		if !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
		if h.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s: HSTS without https", path)
		}
	}
}
