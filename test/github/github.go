// Package github is a fake of GitHub for tests: of what its REST API does for GitHub Apps, and
// of its Git host, as its documentation describes them (https://docs.github.com/rest, version
// 2022-11-28). Repositories are real ones behind git's own http-backend; tokens, permissions
// and rulesets are enforced on them. It was never compared with the real GitHub.
package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// GitHub is a host with one organization.
type GitHub struct {
	// URL is the host's. Its API is below /api/v3/, as on a GitHub Enterprise Server.
	URL string
	// Organization is the only one.
	Organization string
	// Person is a member who may write to all repositories, with this token.
	Person, PersonToken string

	t    testing.TB
	root string
	// deliveries are those under way.
	deliveries sync.WaitGroup

	mu sync.Mutex
	// firstBranch is what the organization calls the first branch of repositories.
	firstBranch string
	// ahead is how far the host's clock is ahead.
	ahead        time.Duration
	apps         map[int64]*app
	tokens       map[string]*token
	repositories map[string]*repository
	// renamed are those of old names.
	renamed map[string]int64
	last    int64
	answer  http.Handler
	// limited is until when installations are answered nothing.
	limited time.Time
	// delay is how long after it was made a token is refused still.
	delay time.Duration
	// requests counts those of the API, and hooksWritten those that write webhooks.
	requests, hooksWritten int
}

// app is a GitHub App, installed on all repositories unless it is not.
type app struct {
	id, installation int64
	slug             string
	key              *rsa.PublicKey
	permissions      map[string]string
	suspended        bool
	selection        string
}

// token is one of an installation, or the person's.
type token struct {
	app           *app
	repositories  []string // nil for all
	permissions   map[string]string
	made, expires time.Time
}

func (t *token) may(permission, level string) bool {
	if t.app == nil {
		return permission != "checks" // only Apps may write these
	}
	has := t.permissions[permission]
	return has == "write" || has != "" && level == "read"
}

// New serves until the test ends.
func New(t testing.TB) *GitHub {
	t.Helper()
	g := &GitHub{
		Organization: "acme", Person: "ada", PersonToken: "ghp_" + secret(), t: t, root: t.TempDir(), firstBranch: "main",
		apps: map[int64]*app{}, tokens: map[string]*token{}, repositories: map[string]*repository{}, renamed: map[string]int64{},
	}
	g.tokens[g.PersonToken] = &token{expires: time.Now().Add(1000 * time.Hour)}
	api := g.unchanged(g.api())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/v3/") {
			g.serveGit(w, r)
			return
		}
		g.mu.Lock()
		g.requests++
		answer := g.answer
		g.mu.Unlock()
		if answer != nil {
			answer.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	}))
	g.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		g.deliveries.Wait()
	})
	return g
}

func secret() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (g *GitHub) next() int64 {
	g.last++
	return g.last
}

// AddApp makes an App with permissions, such as "contents": "write", and installs it on all
// repositories. It gives its number and a private key in PEM.
func (g *GitHub) AddApp(slug string, permissions map[string]string) (id int64, key []byte) {
	g.mu.Lock()
	a := &app{id: g.next(), installation: g.next(), slug: slug, permissions: permissions, selection: "all"}
	g.apps[a.id] = a
	g.mu.Unlock()
	return a.id, g.ReplaceKey(a.id)
}

// ReplaceKey has an App sign in with another private key, which it gives in PEM.
func (g *GitHub) ReplaceKey(id int64) []byte {
	g.t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apps[id].key = &private.PublicKey
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
}

// ChangeApp changes how an App is installed: suspended or not, "all" or "selected" repositories,
// and the permissions that are not nil.
func (g *GitHub) ChangeApp(id int64, suspended bool, selection string, permissions map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.apps[id]
	a.suspended, a.selection = suspended, selection
	if permissions != nil {
		a.permissions = permissions
	}
}

// Reinstall has an App uninstalled and installed, or if not installed is set, only the first.
func (g *GitHub) Reinstall(id int64, installed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, t := range g.tokens {
		if t.app != nil && t.app.id == id {
			delete(g.tokens, name)
		}
	}
	g.apps[id].installation = 0
	if installed {
		g.apps[id].installation = g.next()
	}
}

// SetArchived has a person archive a repository, or not any more.
func (g *GitHub) SetArchived(repository string, archived bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.repositories[repository].archived = archived
}

// SetFirstBranch sets what the first branch of repositories to come is called.
func (g *GitHub) SetFirstBranch(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.firstBranch = name
}

// SetDefaultBranch has a person make a branch where main is, and the default one of a repository.
func (g *GitHub) SetDefaultBranch(repository, branch string) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.run(repository, "branch", branch, "main"); err != nil {
		g.t.Fatal(err)
	}
	g.repositories[repository].first = branch
}

// DefaultBranch is that of a repository.
func (g *GitHub) DefaultBranch(repository string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.repositories[repository].first
}

// DelayTokens has each token that is made refused for a while, as by a part of the host that does
// not know it yet.
func (g *GitHub) DelayTokens(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = d
}

// Pass has time pass on the host.
func (g *GitHub) Pass(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead += d
}

func (g *GitHub) now() time.Time { return time.Now().Add(g.ahead) }

// SetAnswer has a handler answer what is asked of the API; nil ends that.
func (g *GitHub) SetAnswer(h http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = h
}

// LimitInstallations has what Apps ask with tokens of installations refused for a while, as when
// these have used up their rate limit. What they ask as themselves counts for another one.
func (g *GitHub) LimitInstallations(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limited = g.now().Add(d)
}

// Limited answers as when the primary rate limit is used up until a time.
func Limited(until time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", unix(until))
		refuse(w, http.StatusForbidden, "API rate limit exceeded for installation ID 1.")
	})
}

// Requests is how many requests of the API there were that count against its limit.
func (g *GitHub) Requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// HooksWritten is how many times a webhook was made or changed.
func (g *GitHub) HooksWritten() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hooksWritten
}

// Hooks is how many webhooks a repository has.
func (g *GitHub) Hooks(repository string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.repositories[repository].hooks)
}

// Titles are those of the check runs of a repository, as they were begun.
func (g *GitHub) Titles(repository string) (titles []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.repositories[repository].runs {
		title, _ := r.Output["title"].(string)
		titles = append(titles, title)
	}
	return titles
}

// Tokens is how many tokens of installations count that open this repository and no other.
func (g *GitHub) Tokens(repository string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, t := range g.tokens {
		if len(t.repositories) == 1 && t.repositories[0] == repository && g.now().Before(t.expires) {
			n++
		}
	}
	return n
}
