package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// The cluster that tests work with, and a stranger's.
const (
	cluster = "k3x9d2abqw"
	other   = "zz7d2abqwe"
)

// passwords lets the three roles of each cluster in with "<role>-<cluster>",
// as the real Authenticator does with tokens.
type passwords struct{}

func (passwords) Authenticate(r *http.Request, id string) (access.Caller, error) {
	_, password, _ := r.BasicAuth()
	for role, name := range map[access.Role]string{access.Konnector: "konnector", access.Bridge: "bridge", access.Owner: "owner"} {
		if password == name+"-"+id {
			return access.Caller{Role: role, Cluster: id, Name: name}, nil
		}
	}
	if strings.HasPrefix(password, "owner-") {
		return access.Caller{}, refusal.New(refusal.NotFound, "repository not found")
	}
	return access.Caller{}, refusal.New(refusal.Unauthenticated, "the credential does not count here")
}

// moves collects what a Host announces.
type moves struct {
	mu     sync.Mutex
	events []restapi.RefEvent
}

func (m *moves) add(_ string, e restapi.RefEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
}

func (m *moves) list() []restapi.RefEvent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]restapi.RefEvent(nil), m.events...)
}

// newHost is a Host that has time enough also where others use up the processors.
func newHost(t testing.TB, cfg Config) *Host {
	t.Helper()
	h, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.readTimeout, h.copyWait = 2*time.Minute, time.Minute
	return h
}

// served is a Host behind HTTP, with the repositories of two clusters.
type served struct {
	*Host
	url   string
	moves *moves
}

func serve(t testing.TB, change ...func(*Config)) *served {
	t.Helper()
	m := &moves{}
	cfg := Config{Dir: t.TempDir(), Authenticator: passwords{}, Moved: m.add, Log: slog.New(slog.DiscardHandler)}
	server := httptest.NewUnstartedServer(nil)
	cfg.PublicURL = "http://" + server.Listener.Addr().String()
	for _, f := range change {
		f(&cfg)
	}
	host := newHost(t, cfg)
	for _, id := range []string{cluster, other} {
		if err := host.Create(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	server.Config.Handler = host
	server.Start()
	t.Cleanup(server.Close)
	return &served{Host: host, url: server.URL, moves: m}
}

// bare is the directory of the tests' cluster.
func (s *served) bare() string { return filepath.Join(s.git.dir, cluster+".git") }

// clone is a person's or an agent's clone, driven by stock git.
type clone struct {
	t    testing.TB
	dir  string
	role access.Role
}

// remote is the URL with which a role reaches a cluster's repository.
func (s *served) remote(role access.Role, id string) string {
	return strings.Replace(s.URL(id), "http://", "http://"+role.String()+":"+role.String()+"-"+id+"@", 1)
}

func (s *served) clone(t testing.TB, role access.Role) *clone {
	t.Helper()
	c := &clone{t: t, dir: filepath.Join(t.TempDir(), "clone"), role: role}
	if out, err := stockGit(t, "", nil, "clone", "--quiet", s.remote(role, cluster), c.dir); err != nil {
		t.Fatalf("clone as %s: %v\n%s", role, err, out)
	}
	c.as(emails[role])
	return c
}

// emails are the identities that each role rightly uses.
var emails = map[access.Role]string{
	access.Konnector: "konnector@" + contract.ClusterDomain(cluster),
	access.Bridge:    "gitbridge@" + controlPlaneDomain,
	access.Owner:     "alice@example.com",
	access.Member:    "bob@example.com",
}

// as sets author and committer of the commits to come.
func (c *clone) as(email string) {
	c.t.Helper()
	c.git("config", "user.email", email)
	c.git("config", "user.name", strings.SplitN(email, "@", 2)[0])
}

// git runs stock git and fails the test when it fails.
func (c *clone) git(args ...string) string {
	c.t.Helper()
	out, err := stockGit(c.t, c.dir, nil, args...)
	if err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// commit writes files (an empty content removes one) and commits them.
func (c *clone) commit(message string, files map[string]string) {
	c.t.Helper()
	for path, content := range files {
		full := filepath.Join(c.dir, path)
		if content == "" {
			c.git("rm", "-q", path)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			c.t.Fatal(err)
		}
		c.git("add", path)
	}
	c.git("commit", "-q", "-m", message)
}

// pushed fails the test unless git push succeeds.
func (c *clone) pushed(args ...string) {
	c.t.Helper()
	if out, err := stockGit(c.t, c.dir, nil, append([]string{"push", "-q", "origin"}, args...)...); err != nil {
		c.t.Errorf("push %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// refused fails the test unless git push is refused with these words.
func (c *clone) refused(words string, args ...string) {
	c.t.Helper()
	out, err := stockGit(c.t, c.dir, nil, append([]string{"push", "origin"}, args...)...)
	if err == nil {
		c.t.Errorf("push %s went through, want it refused", strings.Join(args, " "))
	}
	if !strings.Contains(out, words) {
		c.t.Errorf("push %s: want the words %q, got:\n%s", strings.Join(args, " "), words, out)
	}
}

func stockGit(t testing.TB, dir string, stdin []byte, args ...string) (string, error) {
	t.Helper()
	ctx := t.Context()
	if ctx.Err() != nil {
		ctx = context.Background()
	}
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", "GIT_CONFIG_VALUE_0=2"}
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// fsck fails the test unless a repository is clean.
func (s *served) fsck(t testing.TB) {
	t.Helper()
	if out, err := stockGit(t, s.bare(), nil, "fsck", "--full", "--strict"); err != nil || strings.Contains(out, "error") || strings.Contains(out, "missing") {
		t.Errorf("git fsck: %v\n%s", err, out)
	}
}
