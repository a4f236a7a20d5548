// Package clone reads the history of an app cluster's repository for a person,
// with the git program: so it works with whatever host, proxy and credential the
// person's git works with, and with the backend's own host by the person's ID
// token.
//
// It keeps one bare clone for each repository in the person's cache folder, with
// commits and folders, and fetches a file's content when it is asked for: the
// first call costs what the history has of commits, not of files. It checks
// nothing out, runs nothing that lies in a repository, and pushes nothing but the
// branch of a proposal.
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
	"regexp"
	"strings"
	"time"

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
	// Silent lets git ask nobody.
	Silent bool
}

// asksNobody tells whether there is nothing for git to ask a person.
func (s Source) asksNobody() bool { return s.Silent || s.Password != "" }

// Clone is what this machine has of a repository.
type Clone struct {
	dir string
	env []string
	url string
	// alone lets git run without the person's terminal.
	alone bool
	// username is that of the Source.
	username string
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
	c := &Clone{url: s.URL, alone: s.asksNobody(), username: s.Username, dir: filepath.Join(cache, "gitbind", "repositories", hex.EncodeToString(sum[:10])+".git")}
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for clones: %w", err)
	}
	unlock, err := lock(ctx, c.dir+".lock")
	if err != nil {
		return nil, fmt.Errorf("lock the clone of %s: %w", s.URL, err)
	}
	defer unlock()
	if c.env, err = s.environment(c.dir + ".pem"); err != nil {
		return nil, err
	}
	// git looks for a repository in the folders above, unless it is told one.
	c.env = append(c.env, "GIT_DIR="+c.dir)
	err = c.update(ctx)
	var said *Error
	if errors.As(err, &said) && broken.MatchString(said.Words) {
		// Nobody else updates it now, so what a killed git left has no owner; and
		// nothing is in it that the host has not.
		if err := os.RemoveAll(c.dir); err != nil {
			return nil, fmt.Errorf("remove the broken clone of %s: %w", s.URL, err)
		}
		err = c.update(ctx)
	}
	return c, err
}

// broken is what git says of a clone that no later call can use: a lock that was
// left behind, or parts that are missing or damaged.
var broken = regexp.MustCompile(`(?m)\.lock': File exists|^fatal: not a git repository|^fatal: bad (config|object)|^error: bad ref|` +
	`^(error|fatal): (loose )?object .* is (empty|corrupt)|inflate: data stream error|^(error|fatal): .*[pP]ackfile .* (is|does not|cannot)|` +
	`did not send all necessary objects|^fatal: (missing|unable to read|failed to read object|cannot read)`)

// lock keeps other processes from making the same clone at the same time.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	type locked struct {
		unlock func()
		err    error
	}
	done := make(chan locked)
	go func() {
		unlock, err := lockedfile.MutexAt(path).Lock()
		select {
		case done <- locked{unlock, err}:
		case <-ctx.Done():
			if err == nil {
				unlock()
			}
		}
	}()
	select {
	case l := <-done:
		return l.unlock, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// update makes the clone, if need be, and brings its main up to date.
func (c *Clone) update(ctx context.Context) error {
	if err := c.init(ctx); err != nil {
		return err
	}
	return c.fetch(ctx)
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
	var out bytes.Buffer
	if err := c.runInto(ctx, in, &out, args...); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// runInto runs git in the clone and writes what it prints.
func (c *Clone) runInto(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	cmd := c.command(ctx, args...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &Error{Command: args[0], URL: c.url, Code: exit.ExitCode(), Words: strings.TrimSpace(said.String())}
	}
	if err != nil {
		return fmt.Errorf("run git %s: %w", args[0], err)
	}
	return nil
}

// command is a git command in the clone. When ctx ends, git is asked to stop, so
// that it removes its temporary files and ends its children, and killed when it
// does not.
func (c *Clone) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--literal-pathspecs", "--no-pager"}, args...)...)
	cmd.Env = c.env
	if args[0] != "init" {
		cmd.Dir = c.dir
	}
	cmd.WaitDelay = 5 * time.Second
	stop(cmd, c.alone)
	return cmd
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
