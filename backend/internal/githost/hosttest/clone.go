package hosttest

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
)

// clone is a clone of a cluster's repository.
type clone struct {
	t   *testing.T
	dir string
	url string
}

func (w World) clone(t *testing.T, h Host, id string) *clone {
	t.Helper()
	c := &clone{t, t.TempDir(), h.URL(id)}
	c.git("init", "-q", "-b", "main")
	c.fetch(w.person())
	c.git("reset", "-q", "--hard", "FETCH_HEAD")
	return c
}

func (w World) person() githost.Credential {
	var c githost.Credential
	c.Username, c.Password = w.Credential()
	return c
}

// as is the URL of a repository with a credential.
func as(repository string, c githost.Credential) string {
	u, err := url.Parse(repository)
	if err != nil {
		return repository
	}
	u.User = url.UserPassword(c.Username, c.Password)
	return u.String()
}

func (c *clone) try(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("git %s: %v: %s", args[0], err, out)
	}
	return out
}

func (c *clone) fetch(by githost.Credential) {
	c.t.Helper()
	c.git("fetch", "-q", as(c.url, by), "main")
}

// commit makes a commit on what is checked out, and gives it.
func (c *clone) commit(text string) string {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "file"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.git("add", "--all")
	c.git("commit", "-q", "-m", text)
	return c.git("rev-parse", "HEAD")
}

// branch pushes a new commit to a branch as a person, and gives it.
func (c *clone) branch(by githost.Credential, branch, text string) string {
	c.t.Helper()
	commit := c.commit(text)
	c.git("push", "-q", as(c.url, by), "HEAD:refs/heads/"+branch)
	return commit
}

// pushes tells whether a push is taken.
func (c *clone) pushes(by githost.Credential, refspec string) (string, bool) {
	out, err := c.try("push", "-q", as(c.url, by), refspec)
	return out, err == nil
}
