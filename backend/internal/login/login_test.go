package login

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/test/env"
)

const client = "gitbind-cli"

// issuer is an OIDC issuer whose keys a test holds, and can switch off.
type issuer struct {
	url  string
	key  *rsa.PrivateKey
	down atomic.Bool
	// fetched counts how often the keys were.
	fetched atomic.Int64
	// keysAt is where it sends who asks for its keys; nil for nowhere.
	keysAt atomic.Pointer[string]
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t)}
	s := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: i.key.Public(), KeyID: "k", Algorithm: oidc.RS256}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if r.URL.Path == "/keys" {
			i.fetched.Add(1)
			if at := i.keysAt.Load(); at != nil && r.URL.RawQuery == "" {
				http.Redirect(w, r, *at, http.StatusFound)
				return
			}
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.SetIssuer(server.URL)
	i.url = server.URL
	return i
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// claimsOf are the claims of a good token, with changes.
func (i *issuer) claimsOf(changes map[string]any) string {
	c := map[string]any{
		"iss": i.url, "sub": "u1", "aud": client, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"email": "alice@example.com", "email_verified": true, "groups": []string{"dev"},
	}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	b, _ := json.Marshal(c)
	return string(b)
}

func (i *issuer) token(changes map[string]any) string {
	return oidctest.SignIDToken(i.key, "k", oidc.RS256, i.claimsOf(changes))
}

func config(issuer string, change ...func(*Config)) Config {
	cfg := Config{
		URL: issuer, Audiences: []string{client},
		Username: Mapping{Claim: ClaimEmail, Prefix: "oidc:"}, Groups: Mapping{Claim: "groups", Prefix: "oidc:"},
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

func verifier(t *testing.T, configs ...Config) Issuers {
	t.Helper()
	var v Issuers
	for _, cfg := range configs {
		i, err := NewIssuer(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = v.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return v
}

func waitReady(t *testing.T, v interface{ Ready() error }) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); v.Ready() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(v.Ready())
		}
	}
}

func TestAGoodTokenGivesAnIdentity(t *testing.T) {
	i := newIssuer(t)
	for _, c := range []struct {
		name     string
		claim    string
		noGroups bool
		token    map[string]any
		want     Identity
		refuse   string
	}{
		{name: "verified address", claim: ClaimEmail, want: Identity{i.url, "u1", "oidc:alice@example.com", []string{"oidc:dev"}}},
		{name: "subject", claim: ClaimSubject, token: map[string]any{"email": nil, "groups": nil}, want: Identity{i.url, "u1", "oidc:u1", nil}},
		{name: "one group", claim: ClaimEmail, token: map[string]any{"groups": "dev"}, want: Identity{i.url, "u1", "oidc:alice@example.com", []string{"oidc:dev"}}},
		{name: "groups that are null", claim: ClaimEmail, token: map[string]any{"groups": json.RawMessage("null")}, want: Identity{i.url, "u1", "oidc:alice@example.com", nil}},
		{name: "a claim without a name where none is that of groups", claim: ClaimEmail, noGroups: true, token: map[string]any{"": "system:masters"}, want: Identity{i.url, "u1", "oidc:alice@example.com", nil}},
		{name: "several audiences", claim: ClaimEmail, token: map[string]any{"aud": []string{"x", client}, "azp": client}, want: Identity{i.url, "u1", "oidc:alice@example.com", []string{"oidc:dev"}}},
		{name: "unverified address", claim: ClaimEmail, token: map[string]any{"email_verified": false}, refuse: "no verified email address"},
		{name: "address that says nothing about it", claim: ClaimEmail, token: map[string]any{"email_verified": nil}, refuse: "no verified email address"},
		{name: "no address", claim: ClaimEmail, token: map[string]any{"email": nil}, refuse: "no verified email address"},
		{name: "no subject", claim: ClaimSubject, token: map[string]any{"sub": nil}, refuse: "no subject"},
	} {
		v := verifier(t, config(i.url, func(cfg *Config) {
			if cfg.Username.Claim = c.claim; c.noGroups {
				cfg.Groups = Mapping{}
			}
		}))
		waitReady(t, v)
		got, err := v.Verify(t.Context(), i.token(c.token))
		if c.refuse != "" {
			refused(t, c.name, err, refusal.Unauthenticated, c.refuse)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func refused(t *testing.T, name string, err error, kind refusal.Kind, words string) {
	t.Helper()
	if _, got := refusal.Answer(err); !refusal.Is(err, kind) || !strings.Contains(got, words) {
		t.Errorf("%s: got %v, want the words %q", name, err, words)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	i := newIssuer(t)
	v := verifier(t, config(i.url))
	waitReady(t, v)
	stranger := newKey(t)
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	good := strings.Split(i.token(nil), ".")
	for name, c := range map[string]struct{ token, words string }{
		"a token signed with somebody else's key":           {oidctest.SignIDToken(stranger, "k", oidc.RS256, i.claimsOf(nil)), "signature is not the issuer's"},
		"a token signed with a key that the issuer has not": {oidctest.SignIDToken(stranger, "other", oidc.RS256, i.claimsOf(nil)), "signature is not the issuer's"},
		"a token for another audience":                      {i.token(map[string]any{"aud": "another"}), "for another client"},
		"an expired token":                                  {i.token(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "has expired"},
		"a token without an expiry":                         {i.token(map[string]any{"exp": nil}), "has expired"},
		"a token that is not valid yet":                     {i.token(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "not valid"},
		"a token that says another issuer":                  {i.token(map[string]any{"iss": "https://evil.example.com"}), "from another issuer"},
		"a token of another issuer":                         {oidctest.SignIDToken(stranger, "k", oidc.RS256, i.claimsOf(map[string]any{"iss": "https://evil.example.com"})), "from another issuer"},
		"a token whose claims were changed":                 {good[0] + "." + part(i.claimsOf(map[string]any{"sub": "admin"})) + "." + good[2], "signature is not the issuer's"},
		"a token that says it needs no signature":           {part(`{"alg":"none"}`) + "." + part(i.claimsOf(nil)) + ".", "signature is not the issuer's"},
		"a token signed with the public key as a secret":    {part(`{"alg":"HS256","kid":"k"}`) + "." + part(i.claimsOf(nil)) + "." + part("x"), "signature is not the issuer's"},
		"no token":       {"hello", "no ID token"},
		"an empty token": {"", "no ID token"},
	} {
		_, err := v.Verify(t.Context(), c.token)
		refused(t, name, err, refusal.Unauthenticated, c.words)
	}
}

func TestAnIssuerThatIsDownIsWaitedFor(t *testing.T) {
	i := newIssuer(t)
	i.down.Store(true)
	v := verifier(t, config(i.url))
	_, err := v.Verify(t.Context(), i.token(nil))
	refused(t, "down", err, refusal.Unavailable, "issuer cannot be reached")
	if v.Ready() == nil {
		t.Error("ready without an issuer")
	}
	i.down.Store(false)
	waitReady(t, v)
	if _, err := v.Verify(t.Context(), i.token(nil)); err != nil {
		t.Error(err)
	}
}

func TestAnIssuerThatGoesDownLaterIsNoFaultOfTheToken(t *testing.T) {
	i := newIssuer(t)
	v := verifier(t, config(i.url))
	waitReady(t, v)
	i.down.Store(true)
	_, err := v.Verify(t.Context(), i.token(nil)) // its key has not been fetched yet
	refused(t, "keys not there", err, refusal.Unavailable, "keys cannot be fetched")
	i.down.Store(false)
	// go-oidc lets a request that comes at once share the failed fetch.
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err = v.Verify(t.Context(), i.token(nil)); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	i.down.Store(true)
	if _, err := v.Verify(t.Context(), i.token(nil)); err != nil {
		t.Errorf("with known keys: %v", err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no issuer":           func(c *Config) { c.URL = "" },
		"plain http":          func(c *Config) { c.URL = "http://issuer.example.com" },
		"no audience":         func(c *Config) { c.Audiences = nil },
		"an empty audience":   func(c *Config) { c.Audiences = []string{""} },
		"no claim":            func(c *Config) { c.Username.Claim = "" },
		"no prefix":           func(c *Config) { c.Username.Prefix = "" },
		"system names":        func(c *Config) { c.Username.Prefix = "system:" },
		"groups as they come": func(c *Config) { c.Groups.Prefix = "" },
		"no CA":               func(c *Config) { c.CA = "hello" },
		"all of GitLab":       func(c *Config) { c.URL = "https://gitlab.com" },
		"all of GitHub":       func(c *Config) { c.URL = "https://token.actions.githubusercontent.com/" },
	} {
		if _, err := NewIssuer(config("https://x", change), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSignInAtDex(t *testing.T) {
	e := env.StartForTest(t, env.Options{Clusters: []string{}, Dex: true})
	v := verifier(t, config(e.Dex.Issuer))
	waitReady(t, v)
	raw, err := e.Dex.IDToken(t.Context(), env.Alice)
	if err != nil {
		t.Fatal(err)
	}
	id, err := v.Verify(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	if id.Username != "oidc:"+env.Alice || id.Issuer != e.Dex.Issuer || id.Subject == "" {
		t.Errorf("got %+v", id)
	}
	// Signed by Dex, changed afterwards.
	parts := strings.Split(raw, ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), env.Alice, env.Bob, 1)))
	_, err = v.Verify(t.Context(), strings.Join(parts, "."))
	refused(t, "changed", err, refusal.Unauthenticated, "signature is not the issuer's")

	other := verifier(t, config(e.Dex.Issuer, func(c *Config) { c.Audiences = []string{"another"} }))
	waitReady(t, other)
	_, err = other.Verify(t.Context(), raw)
	refused(t, "audience", err, refusal.Unauthenticated, "for another client")
}

func TestH6_AnIssuersKeysAndPagesAreNotAskedForInClear(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		for _, address := range []string{"http://dex.example.com/x", "javascript:alert(1)", "/x", ""} {
			mux := http.NewServeMux()
			server := httptest.NewServer(mux)
			document := map[string]string{
				"issuer": server.URL, "authorization_endpoint": server.URL + "/auth", "token_endpoint": server.URL + "/token", "jwks_uri": server.URL + "/keys",
			}
			document[name] = address
			mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(document)
			})
			i, err := NewIssuer(config(server.URL), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err = i.discover(t.Context()); err == nil {
				_, err = i.Endpoint()
			}
			if err == nil || !strings.Contains(err.Error(), "https") {
				t.Errorf("%s %q: %v", name, address, err)
			}
			// Pipelines' issuers sign nobody in.
			if f := i.found.Load(); (f != nil) != (name != "jwks_uri") {
				t.Errorf("%s %q: tokens are verified: %t", name, address, f != nil)
			}
			server.Close()
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.RedirectHandler("http://dex.example.com/", http.StatusTemporaryRedirect))
	server := httptest.NewServer(mux)
	defer server.Close()
	i, err := NewIssuer(config(server.URL), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.discover(t.Context()); err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("led away: %v", err)
	}
}

func TestNamesGetTheirIssuersPrefix(t *testing.T) {
	v := verifier(t, config("https://people", func(c *Config) { c.Username.Prefix, c.Groups = "oidc:", Mapping{"groups", "oidc-group:"} }),
		config("https://ci", func(c *Config) { c.Username.Prefix, c.Groups = "ci:", Mapping{} }))
	people, ci := Identity{Issuer: "https://people"}, Identity{Issuer: "https://ci"}
	for _, c := range []struct {
		of         Identity
		group      bool
		name, want string
	}{
		{people, false, "bob@example.com", "oidc:bob@example.com"},
		{people, false, "oidc:bob@example.com", "oidc:bob@example.com"},
		{people, false, "ci:repo", "ci:repo"},
		{people, true, "team", "oidc-group:team"},
		{people, true, "oidc:team", "oidc-group:oidc:team"},
		{ci, false, "repo", "ci:repo"},
		{ci, true, "oidc-group:team", "oidc-group:team"},
		{ci, true, "team", ""},
		{people, false, "", ""},
		{people, false, "oidc:", ""},
		{people, false, "a\nb", ""},
		{people, false, "system:admin", ""},
		{people, true, "system:masters", ""},
	} {
		if got, err := v.Name(c.of, c.group, c.name); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q of %s: %q, %v, want %q", c.name, c.of.Issuer, got, err, c.want)
		}
	}
}
