package app

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/test/env"
)

// pipelines is the issuer of a CI system.
type pipelines struct {
	url string
	key *rsa.PrivateKey
}

func newPipelines(t *testing.T) *pipelines {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.RS256}}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.SetIssuer(server.URL)
	return &pipelines{url: server.URL, key: key}
}

// token is that of a job, with changes.
func (p *pipelines) token(changes map[string]any) string {
	claims := map[string]any{
		"iss": p.url, "aud": ciAudience, "sub": "repo:acme/app:ref:refs/heads/main", "repository_owner": "acme",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	b, _ := json.Marshal(claims)
	return oidctest.SignIDToken(p.key, "k", oidc.RS256, string(b))
}

func (s *security) testForgedToken(t *testing.T) {
	if status := s.door(t, s.tokens[env.Alice], nil, "/v1/clusters"); status != http.StatusOK {
		t.Fatalf("Alice herself: %d", status)
	}
	parts := strings.Split(s.tokens[env.Alice], ".")
	decode := func(part string) string {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	encode := func(part string) string { return base64.RawURLEncoding.EncodeToString([]byte(part)) }
	var header struct {
		KeyID string `json:"kid"`
	}
	if err := json.Unmarshal([]byte(decode(parts[0])), &header); err != nil || header.KeyID == "" {
		t.Fatalf("header of the token: %v", err)
	}
	claims := decode(parts[1])
	for what, token := range map[string]string{
		"changed claims":                    parts[0] + "." + encode(strings.Replace(claims, env.Alice, env.Bob, 1)) + "." + parts[2],
		"no signature":                      parts[0] + "." + parts[1] + ".",
		"the algorithm none":                encode(`{"alg":"none"}`) + "." + parts[1] + ".",
		"another key by the same name":      oidctest.SignIDToken(s.ci.key, header.KeyID, oidc.RS256, claims),
		"the public key as a secret":        encode(`{"alg":"HS256","kid":"`+header.KeyID+`"}`) + "." + parts[1] + "." + parts[2],
		"the key of an issuer we trust":     oidctest.SignIDToken(s.ci.key, "k", oidc.RS256, claims),
		"no token":                          "hello",
		"a sign-in in the place of a token": s.sealed(t, "gitbind-signin", s.sessionOf(time.Now().Add(time.Hour))),
	} {
		s.shut(t, what, token)
	}
}

func (s *security) testAudience(t *testing.T) {
	dex := *s.Dex
	dex.ClientID = env.OtherClientID
	token, err := dex.IDToken(t.Context(), env.Alice)
	if err != nil {
		t.Fatal(err)
	}
	s.shut(t, "Alice's token for another program", token)
	s.shut(t, "a job's token for another service", s.ci.token(map[string]any{"aud": "https://another.example.com"}))
	s.shut(t, "a job's token for people's programs", s.ci.token(map[string]any{"aud": s.Dex.ClientID}))
}

func (s *security) testExpiredToken(t *testing.T) {
	for what, changes := range map[string]map[string]any{
		"expired":                      {"exp": time.Now().Add(-time.Minute).Unix()},
		"without an end":               {"exp": nil},
		"of the future":                {"nbf": time.Now().Add(time.Hour).Unix()},
		"expired, and issued just now": {"exp": time.Now().Add(-time.Second).Unix(), "iat": time.Now().Unix()},
	} {
		s.shut(t, what, s.ci.token(changes))
	}
}

func (s *security) testPipeline(t *testing.T) {
	var c restapi.Cluster
	token := s.ci.token(nil)
	s.secret(token)
	if status, message := s.call(t, token, "POST", "/v1/clusters", restapi.ConnectRequest{Name: "ci", ClusterUID: "ci"}, &c); status != http.StatusOK {
		t.Fatalf("%d %s", status, message)
	}
	if owner := s.binding(t, c.ID).Spec.Owner; owner.Username != "ci:repo:acme/app:ref:refs/heads/main" || owner.Issuer != s.ci.url {
		t.Errorf("the cluster is that of %+v", owner)
	}
	if out, err := gitRemote(t, c.RepositoryURL, "job", token); err != nil {
		t.Errorf("its repository: %v %s", err, out)
	}
	s.shut(t, "a stranger's pipeline", s.ci.token(map[string]any{"repository_owner": "mallory"}))
	s.shut(t, "a pipeline of nobody", s.ci.token(map[string]any{"repository_owner": nil}))
}

func (s *security) testOtherIssuer(t *testing.T) {
	id := s.binding(t, s.alice.ID).Spec.Owner
	s.shut(t, "a pipeline that says it is of the people's issuer", s.ci.token(map[string]any{"iss": s.Dex.Issuer, "sub": id.Subject, "aud": s.Dex.ClientID}))
	s.shut(t, "an issuer that nobody trusts", s.ci.token(map[string]any{"iss": "https://issuer.example.com"}))
	// With Alice's own subject, and let in: another issuer's is somebody else.
	token := s.ci.token(map[string]any{"sub": id.Subject, "email": env.Alice, "email_verified": true})
	var own []restapi.Cluster
	if status, message := s.call(t, token, "GET", "/v1/clusters", nil, &own); status != http.StatusOK || len(own) != 0 {
		t.Errorf("clusters of her namesake: %d %s %+v", status, message, own)
	}
	if out, err := gitRemote(t, s.alice.RepositoryURL, "alice", token); err == nil {
		t.Errorf("her namesake reads her repository: %s", out)
	}
}
