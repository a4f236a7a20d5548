package clone

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"gitbind.dev/gitbridge/contract"
)

func TestABrokenCloneIsMadeAgain(t *testing.T) {
	url := host(t, aHistory())
	for what, harm := range map[string]func(dir string) error{
		"a lock of a git that was killed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "refs/heads/main.lock"), nil, 0o600)
		},
		"no objects": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "objects")) },
		"no config that can be read": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "config"), []byte("[core"), 0o600)
		},
		"packs that were cut": func(dir string) error {
			packs, err := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack"))
			for _, pack := range packs {
				err = errors.Join(err, os.Chmod(pack, 0o600), os.Truncate(pack, 20))
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := opened(t, url)
			git(t, strings.TrimPrefix(url, "file://"), commit(9, bob, "again "+what, orders, what+"\n"), "fast-import", "--quiet", "--force")
			if err := harm(c.dir); err != nil {
				t.Fatal(err)
			}
			commits, err := opened(t, url).Log(t.Context(), orders, 1)
			if err != nil || len(commits) != 1 || commits[0].Subject() != "again "+what {
				t.Errorf("%v, %v", commits, err)
			}
		})
	}
}

func TestGitIsToldItsRepository(t *testing.T) {
	url := host(t, aHistory())
	t.Setenv("GIT_COMMON_DIR", t.TempDir())
	t.Setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", t.TempDir())
	t.Setenv("GIT_CONFIG_PARAMETERS", "'safe.bareRepository=explicit'")
	c := opened(t, url)
	for _, v := range c.env {
		if strings.HasPrefix(v, "GIT_COMMON_DIR=") || strings.HasPrefix(v, "GIT_ALTERNATE_OBJECT_DIRECTORIES=") {
			t.Errorf("git gets %s", v)
		}
	}
}

func TestABrokenCloneTouchesNoRepositoryAroundIt(t *testing.T) {
	url := host(t, aHistory())
	c := opened(t, url)
	cache := filepath.Dir(c.dir)
	git(t, cache, "", "init", "-q", "-b", "main")
	if err := os.RemoveAll(filepath.Join(c.dir, "objects")); err != nil {
		t.Fatal(err)
	}
	opened(t, url)
	if out, err := exec.CommandContext(t.Context(), "git", "--git-dir="+filepath.Join(cache, ".git"), "rev-parse", "--verify", "--quiet", "main").Output(); err == nil {
		t.Errorf("the repository around it got main %s", out)
	}
}

// A host that says nothing: git's child waits for it, and holds git's stderr.
func TestGitEndsWithTheDeadlineAndItsChildrenToo(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	fifo := filepath.Join(t.TempDir(), "alive")
	if out, err := exec.CommandContext(t.Context(), "mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	t.Setenv("GIT_ALLOW_PROTOCOL", "ext")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan error, 1)
	go func() {
		// A host that says nothing: it keeps its output open, or git would end by itself.
		_, err := Open(ctx, Source{URL: "ext::sh -c exec% sleep% 600% 3>" + fifo, Silent: true})
		opened <- err
	}()
	// The open ends when the child has it open, and the read when no child is left.
	f, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if _, err := io.ReadAll(f); err != nil {
		t.Error(err)
	}
	if err := <-opened; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestTheLockIsNotWaitedForWithoutEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockedfile.MutexAt(path).Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func TestWhoIsNotToBeAskedIsAskedByNoGit(t *testing.T) {
	t.Setenv("GIT_ASKPASS", "ask")
	t.Setenv("SSH_ASKPASS", "ask")
	env, err := Source{URL: "https://git.example.com/x.git", Silent: true}.environment("")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(env) // the last one counts
	for _, want := range []string{"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS="} {
		name, _, _ := strings.Cut(want, "=")
		if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }); i < 0 || env[i] != want {
			t.Errorf("git gets no %s", want)
		}
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestOfAHugeFileOnlyTheBeginningIsKept(t *testing.T) {
	const huge = 1 << 30
	out := io.MultiReader(strings.NewReader("a blob 1073741824\n"), io.LimitReader(zeros{}, huge), strings.NewReader("\nb blob 2\nhi\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	files, err := ParseBatch(out)
	runtime.ReadMemStats(&after)
	if err != nil || len(files["a"]) != contract.MaxFileSize+1 || !bytes.Equal(files["b"], []byte("hi")) {
		t.Errorf("%d bytes, %q, %v", len(files["a"]), files["b"], err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > huge/8 {
		t.Errorf("it took %d bytes of memory", took)
	}
}
