package embedded

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gitbind.dev/backend/internal/access"
)

// hook has git run a script each time it is about to move branches, while it
// holds their locks. It gets two file names: one to say that it runs, and one to
// wait for.
func (s *served) hook(t *testing.T, script string) (runs, goOn string) {
	t.Helper()
	dir := t.TempDir()
	runs, goOn = filepath.Join(dir, "runs"), filepath.Join(dir, "go-on")
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = prepared ] || exit 0\n[ -e %[1]s ] && exit 0\ntouch %[1]s\n%[3]s\n", runs, goOn, strings.ReplaceAll(script, "GO_ON", goOn))
	if err := os.WriteFile(filepath.Join(dir, "reference-transaction"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(hostConfig, "hooksPath = /dev/null", "hooksPath = "+dir, 1)
	if err := os.WriteFile(s.git.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return runs, goOn
}

// leftToGit is a file with a name with which the host leaves a push to git.
const leftToGit = "bindings/.left-to-git"

// soon waits for what happens in another process.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAClientThatGoesAwayInTheMiddleOfAPushLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	s := serve(t)
	runs, goOn := s.hook(t, "while ! [ -e GO_ON ]; do sleep 0.05; done")
	gone := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/git-receive-pack") && r.ContentLength > 100 {
			context.AfterFunc(r.Context(), func() { close(gone) })
		}
		s.ServeHTTP(w, r)
	}))
	defer front.Close()

	c := s.clone(t, access.Konnector)
	c.commit("Order", map[string]string{claimPath: "plan: small\n", leftToGit: "x\n"})
	want := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	push := exec.CommandContext(ctx, "git", "push", "-q", strings.Replace(s.remote(access.Konnector, cluster), s.url[len("http://"):], front.Listener.Addr().String(), 1), "main")
	push.Dir = c.dir
	// The connection belongs to a child of git.
	push.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	push.Cancel = func() error { return syscall.Kill(-push.Process.Pid, syscall.SIGKILL) }
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	soon(t, "git is about to move main", func() bool { return there(runs) })
	if lock := filepath.Join(s.bare(), "refs/heads/main.lock"); !there(lock) {
		t.Fatal("git does not hold main's lock, so this shows nothing")
	}
	cancel()
	_ = push.Wait()
	<-gone
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	soon(t, "git finishes the push whose client has gone", func() bool {
		out, err := stockGit(t, s.bare(), nil, "rev-parse", "main")
		return err == nil && strings.TrimSpace(out) == want
	})
	c.commit("Change", map[string]string{claimPath: "plan: large\n"})
	c.pushed("main")
	s.fsck(t)
}

func TestAGitThatWasKilledLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	s := serve(t)
	runs, _ := s.hook(t, "kill -9 $PPID")
	c := s.clone(t, access.Konnector)
	c.commit("Order", map[string]string{claimPath: "plan: small\n", leftToGit: "x\n"})
	if out, err := stockGit(t, c.dir, nil, "push", "origin", "main"); err == nil || !there(runs) {
		t.Fatalf("git was not killed: %s", out)
	}
	if !there(filepath.Join(s.bare(), "refs/heads/main.lock")) {
		t.Fatal("git left no lock, so this shows nothing")
	}
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	// While a repack runs, the lock may be its own.
	repo.collecting.Lock()
	c.refused("failed to update ref", "main")
	repo.collecting.Unlock()
	c.pushed("main")
	c.commit("Change", map[string]string{claimPath: "plan: large\n"})
	c.pushed("main")
	s.fsck(t)
}
