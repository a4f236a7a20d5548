// Package clone reads the history of an app cluster's repository for a person,
// with the git program: so it works with whatever host, proxy and credential the
// person's git works with, and with the backend's own host by the person's ID
// token.
//
// It keeps one bare clone for each repository in the person's cache folder, with
// commits and folders, and fetches a file's content when it is asked for: the
// first call costs what the history has of commits, not of files. It checks
// nothing out, runs nothing that lies in a repository, and pushes nothing.
package clone

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// main is the branch that says what should be.
const main = "refs/heads/main"

// Source is a repository, and how to get at it.
type Source struct {
	URL string
	// Username and Password are for the host of URL and no other. Without them,
	// git finds its own.
	Username, Password string
	// CABundle is PEM, trusted for URL beside the system's.
	CABundle []byte
}

// Clone is what this machine has of a repository.
type Clone struct {
	dir string
	env []string
	url string
}

// Open makes the clone, or uses the one of an earlier call, and brings its main
// up to date.
func Open(ctx context.Context, s Source) (*Clone, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, errors.New("the program git is not on the PATH: install it (2.31 or later); history is read with it")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the folder for clones: %w (set HOME)", err)
	}
	sum := sha256.Sum256([]byte(s.URL))
	c := &Clone{url: s.URL, dir: filepath.Join(cache, "gitbind", "repositories", hex.EncodeToString(sum[:10])+".git")}
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for clones: %w", err)
	}
	unlock, err := lockedfile.MutexAt(c.dir + ".lock").Lock()
	if err != nil {
		return nil, fmt.Errorf("lock the clone of %s: %w", s.URL, err)
	}
	defer unlock()
	if c.env, err = s.environment(c.dir + ".pem"); err != nil {
		return nil, err
	}
	if err := c.init(ctx); err != nil {
		return nil, err
	}
	return c, c.fetch(ctx)
}

// init makes the empty clone, unless it is there.
func (c *Clone) init(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.dir, "HEAD")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := c.run(ctx, nil, "init", "--quiet", "--bare", "--initial-branch=main", "--template=", c.dir)
	return err
}

// settings make of a repository one that fetches file contents when they are
// asked for. They are given to each call, so that a clone has none of its own.
var settings = [][2]string{
	{"remote.origin.promisor", "true"},
	{"remote.origin.partialCloneFilter", "blob:none"},
	{"fetch.negotiationAlgorithm", "default"},
	{"fetch.writeCommitGraph", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"core.fsmonitor", "false"},
	{"core.hooksPath", os.DevNull},
	{"i18n.logOutputEncoding", "UTF-8"},
	{"diff.renames", "false"},
	{"log.showSignature", "false"},
	{"log.mailmap", "false"},
	{"log.follow", "false"},
}

// fetch brings main up to date. A host that cannot leave out file contents gives
// them, too.
func (c *Clone) fetch(ctx context.Context) error {
	// The asterisk lets a repository without a main be no error.
	_, err := c.run(ctx, nil, "fetch", "--quiet", "--prune", "--filter=blob:none", "--no-tags", "--no-write-fetch-head",
		"--no-recurse-submodules", "origin", "+"+main+"*:"+main+"*")
	return err
}

// run runs git in the clone and gives what it prints.
func (c *Clone) run(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--literal-pathspecs", "--no-pager"}, args...)...)
	cmd.Env, cmd.Stdin = c.env, in
	if args[0] != "init" {
		cmd.Dir = c.dir
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, &Error{Command: args[0], URL: c.url, Code: exit.ExitCode(), Words: strings.TrimSpace(said.String())}
	}
	if err != nil {
		return nil, fmt.Errorf("run git %s: %w", args[0], err)
	}
	return out.Bytes(), nil
}

// Error is what git said when it failed.
type Error struct {
	Command, URL string
	Code         int
	Words        string
}

func (e *Error) Error() string {
	var lines []string
	for line := range strings.Lines(e.Words) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return fmt.Sprintf("git %s of %s: %s", e.Command, e.URL, strings.Join(lines, "; "))
}
