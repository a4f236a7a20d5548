package embedded

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hostConfig is what git reads in place of a user's and the system's
// configuration, so that every repository is served by the same rules,
// whenever it was made.
const hostConfig = `# Written by the gitbind backend at each start. Changes here are lost.
[core]
	# A push that was acknowledged survives a power cut.
	fsync = all
	hooksPath = /dev/null
	# Nothing larger is ever used, and looking for differences between such files
	# takes minutes, in which a fetch is silent.
	bigFileThreshold = 1m
	# A sixth of what git would keep of the objects that differences are from.
	deltaBaseCacheLimit = 16m
	# While a push is in quarantine, its own repository counts as an alternate
	# and git would list the refs of it twice: two processes for nothing.
	alternateRefsCommand = true
[init]
	defaultBranch = main
	# What this host reads and writes by itself. Git 3 takes other ones by default.
	defaultObjectFormat = sha1
	defaultRefFormat = files
[safe]
	# The directory belongs to this host, under whichever user it runs.
	directory = *
[receive]
	fsckObjects = true
	autogc = false
	advertisePushOptions = false
[transfer]
	# One pack for each push: fewer files, and packs are what git makes durable.
	unpackLimit = 1
[uploadpack]
	allowFilter = true
	# An agent asks for the commit that an event named, which may have been
	# replaced meanwhile. Nothing is given away: who may read a repository reads
	# all of it, and a refused push never puts its objects there.
	allowAnySHA1InWant = true
[uploadpackfilter]
	# What partial clones and the agents use; others cost more than they are
	# worth to anybody here.
	allow = false
[uploadpackfilter "blob:none"]
	allow = true
[uploadpackfilter "blob:limit"]
	allow = true
[uploadpackfilter "tree"]
	allow = true
[pack]
	# What each program takes is bounded; each thread has as much again.
	threads = 1
	windowMemory = 32m
	deltaCacheSize = 16m
[commitGraph]
	# Levels count commits. Version 2 has their dates, of which one after the year 2514 makes
	# the graph wrong, and with it all that is asked of history.
	generationVersion = 1
[gc]
	auto = 0
	cruftPacks = true
[user]
	name = gitbind
	email = backend@` + controlPlaneDomain + `
`

// minGit is the oldest git that somebody still mends (Debian 12 does). It is not the
// first that has all that this host uses, core.fsync and cat-file --batch-command:
// a host of strangers' packs is no place for a git with known holes.
const minGitMajor, minGitMinor = 2, 39

// git runs the git program over the repositories below one directory.
type git struct {
	// program is the path of git.
	program string
	// dir is the directory of all repositories.
	dir string
	// memory bounds what each program allocates, in bytes.
	memory uint64
	// env is added to the environment of each program.
	env []string
}

// newGit finds git, checks its version and writes the host's configuration.
func newGit(ctx context.Context, dir string) (*git, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	g := &git{program: program, dir: dir, memory: processMemory}
	// Before any git runs: what a power cut has left of it would end git.
	if err := os.WriteFile(g.config(), []byte(hostConfig), 0o600); err != nil {
		return nil, err
	}
	out, err := g.output(ctx, dir, nil, "version")
	if err != nil {
		return nil, err
	}
	if err := checkVersion(string(out)); err != nil {
		return nil, err
	}
	return g, nil
}

var gitVersion = regexp.MustCompile(`^git version ([0-9]+)\.([0-9]+)`)

func checkVersion(out string) error {
	m := gitVersion.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("git version: %q is no version", abbreviate(out))
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < minGitMajor || major == minGitMajor && minor < minGitMinor {
		return fmt.Errorf("git %s.%s is too old: install %d.%d or newer", m[1], m[2], minGitMajor, minGitMinor)
	}
	return nil
}

func (g *git) config() string { return filepath.Join(g.dir, "gitconfig") }

// waitDelay is how long git may take to stop when it is asked to, and os/exec to copy what it
// has written when it has ended.
const waitDelay = 5 * time.Second

// command is a git command in dir, with nothing of our own environment but
// PATH. When ctx ends, git and its children are asked to stop, so that they
// remove their temporary files, and killed when they do not.
func (g *git) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + g.dir,
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + g.config(),
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_TERMINAL_PROMPT=0",
	}
	cmd.Env = append(cmd.Env, g.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = waitDelay
	return cmd
}

// output runs git and returns what it writes to standard output.
func (g *git) output(ctx context.Context, dir string, stdin []byte, args ...string) ([]byte, error) {
	cmd := g.command(ctx, dir, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	if err := g.run(cmd); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(abbreviate(stderr.String())))
	}
	return stdout.Bytes(), nil
}
