package app

import (
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/test/env"
)

// TestSecurity is the list of what gitbind promises about who gets in and how
// far, each as a sentence, tried over HTTP on a backend as it runs, with a real
// API server and a real issuer.
//
// Promises of other parts have their tests there: what a push may contain in
// backend/internal/githost/embedded, what a page shows in backend/internal/ui,
// what a hostile repository can make the bridge do in gitbridge/internal/app and
// test/e2e, what the konnector may do in its cluster in konnector/internal/agent/app,
// and that nothing is deleted because it is missing in all of these by the
// numbers of their scenarios.
func TestSecurity(t *testing.T) {
	t.Parallel()
	s := startSecurity(t)

	t.Run("side by side", func(t *testing.T) {
		t.Run("a forged ID token lets nobody in", together(s.testForgedToken))
		t.Run("an ID token for another audience lets nobody in", together(s.testAudience))
		t.Run("an expired ID token lets nobody in", together(s.testExpiredToken))
		t.Run("a pipeline is let in by its own issuer if it is one of ours", together(s.testPipeline))
		t.Run("an issuer speaks for its own people only", together(s.testOtherIssuer))

		t.Run("A1_a person signs in with a browser and out again", together(s.testBrowser))
		t.Run("a replayed code signs nobody in", together(s.testReplay))
		t.Run("an altered state signs nobody in", together(s.testState))
		t.Run("a sign-in leads to no foreign address", together(s.testRedirect))
		t.Run("an expired session is none", together(s.testExpiredSession))
		t.Run("a session that was made elsewhere is none", together(s.testForgedSession))
		t.Run("another site makes no request in a person's name", together(s.testOtherSite))
		t.Run("a session opens pages and nothing else", together(s.testSessionIsForPages))
		t.Run("nobody but a browser's own page reads what the backend answers", together(s.testHeaders))

		t.Run("what a client says it is picks nobody else's cluster", together(s.testClientsName))
		t.Run("another tenant's cluster is not there", together(s.testOtherCluster))
		t.Run("another tenant's repository and its branches are not there", together(s.testOtherRepository))
		t.Run("another tenant's Secrets and namespaces are out of reach", together(s.testOtherNamespace))
		t.Run("who may not bind an API binds none", together(s.testNoRight))
		t.Run("Alice's branches", together(s.testBranches))
		t.Run("no trick with a path leads elsewhere", together(s.testPathTricks))
		t.Run("a credential has an end and is in no address", together(s.testCredentialEnds))
	})
	// This starts the backend again, and the last one reads what all have left.
	t.Run("over TLS everything works and cookies are for https only", s.testTLS)
	t.Run("no secret is in the log", s.testLog)
}

// testBranches is one after the other: each compares all branches of Alice's
// repository before and after.
func (s *security) testBranches(t *testing.T) {
	t.Run("a konnector's credential writes neither status nor anything outside bindings", s.testKonnectorWrites)
	t.Run("a bridge's credential writes status and nothing else", s.testBridgeWrites)
	t.Run("no trick with a name in a tree is taken", s.testTreeTricks)
}

// security is a backend with two tenants, and with a second issuer, whose key
// the test holds: that of a company's pipelines.
type security struct {
	*fixture
	ci                     *pipelines
	alice, bob             restapi.Cluster
	aliceBridge, bobBridge string
	aliceSubject           string

	mu sync.Mutex
	// secrets are what must be in no log.
	secrets []string
}

// secret notes what must be in no log.
func (s *security) secret(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, values...)
}

const ciAudience = "https://gitbind.example.com"

func startSecurity(t *testing.T) *security {
	t.Helper()
	f := start(t)
	f.stop()
	dir := t.TempDir()
	s := &security{fixture: f, ci: newPipelines(t)}
	f.opts.oidc.config = filepath.Join(dir, "authentication.json")
	write(t, f.opts.oidc.config, `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration","jwt":[{
		"issuer":{"url":"`+s.ci.url+`","audiences":["`+ciAudience+`"]},
		"claimValidationRules":[{"claim":"repository_owner","requiredValue":"acme"}],
		"claimMappings":{"username":{"claim":"sub","prefix":"ci:"}}}]}`)
	f.opts.web.sessionKeyFile = filepath.Join(dir, "session.key")
	write(t, f.opts.web.sessionKeyFile, base64.StdEncoding.EncodeToString(sessionKey()))
	f.run(t)
	f.kubectl(t, "apply", "--server-side", "-f", "testdata/offer.yaml")
	s.alice, s.bob = f.connect(t, env.Alice, "alices"), f.connect(t, env.Bob, "bobs")
	s.aliceBridge, s.bobBridge = f.bridgeSecret(t, s.alice.ID), f.bridgeSecret(t, s.bob.ID)
	s.aliceSubject = f.binding(t, s.alice.ID).Spec.Owner.Subject
	s.secret(f.tokens[env.Alice], f.tokens[env.Bob], s.alice.Credential.Password, s.bob.Credential.Password, s.aliceBridge, s.bobBridge)
	return s
}

func sessionKey() []byte { return []byte("0123456789abcdef0123456789abcdef") }

// door is a way in, tried with a token: the HTTP status that it answers with.
func (s *security) door(t *testing.T, token string, with func(r *http.Request), path string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if with != nil {
		with(r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// shut checks that a token opens none of the doors that Alice's opens.
func (s *security) shut(t *testing.T, what, token string) {
	t.Helper()
	asPassword := func(r *http.Request) { r.SetBasicAuth("alice", token) }
	for name, status := range map[string]int{
		"the API":            s.door(t, token, nil, "/v1/clusters"),
		"Git":                s.door(t, "", asPassword, "/git/"+s.alice.ID+".git/info/refs?service=git-upload-pack"),
		"Git as bearer":      s.door(t, token, nil, "/git/"+s.alice.ID+".git/info/refs?service=git-upload-pack"),
		"the events":         s.door(t, token, nil, "/v1/events?cluster="+s.alice.ID),
		"the konnector's":    s.door(t, "", func(r *http.Request) { r.SetBasicAuth("konnector", token) }, "/git/"+s.alice.ID+".git/info/refs?service=git-upload-pack"),
		"the page by cookie": s.door(t, "", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "gitbind-session", Value: token}) }, "/clusters/"+s.alice.ID),
	} {
		if name == "the page by cookie" && status == http.StatusSeeOther {
			continue // to the sign-in
		}
		if status != http.StatusUnauthorized {
			t.Errorf("%s at %s: %d, want 401", what, name, status)
		}
	}
}

// testLog comes last: it reads what all the others left.
func (s *security) testLog(t *testing.T) {
	log := s.log.String()
	if !strings.Contains(log, "Refused") || !strings.Contains(log, "Signed in with a browser") {
		t.Fatalf("this is no log of the tests before:\n%s", log)
	}
	for i, secret := range s.secrets {
		if secret == "" {
			t.Errorf("secret %d is empty", i)
		} else if strings.Contains(log, secret) {
			t.Errorf("secret %d is in the log", i)
		}
	}
}
