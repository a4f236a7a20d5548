package embedded

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lockedDir names the folder that the process of a test is to hold.
const lockedDir = "GITBIND_TEST_LOCKED_DIR"

// held is a folder that another process has taken. It ends when kill is called.
func held(t *testing.T) (dir string, kill func()) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "git")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFolderIsOfOneProcessAtATime$")
	cmd.Env = append(os.Environ(), lockedDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // which it reads until it is killed
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	if said, err := out.Read(make([]byte, 1)); said != 1 || err != nil {
		t.Fatalf("it has not taken the folder: %v", err)
	}
	return dir, kill
}

func TestAFolderIsOfOneProcessAtATime(t *testing.T) {
	if dir := os.Getenv(lockedDir); dir != "" {
		if _, err := Lock(t.Context(), dir, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("x")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	t.Parallel()
	dir, kill := held(t)

	ctx, end := context.WithCancel(t.Context())
	said := make(chan string, 10)
	log := slog.New(slog.NewTextHandler(lines(said), nil))
	ended := make(chan error, 1)
	go func() { _, err := Lock(ctx, dir, log); ended <- err }()
	if line := <-said; !strings.Contains(line, "another process") || !strings.Contains(line, dir) {
		t.Errorf("it says %s", line)
	}
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("told to end: %v", err)
	}

	taken := make(chan func(), 1)
	wait := func() {
		go func() {
			unlock, err := Lock(t.Context(), dir, log)
			if err != nil {
				t.Error(err)
			}
			taken <- unlock
		}()
		<-said
	}
	wait()
	select {
	case <-taken:
		t.Fatal("two have it")
	case <-time.After(3 * lockEvery):
	}
	kill()
	unlock := <-taken
	wait()
	unlock()
	(<-taken)()
	if len(said) > 0 {
		t.Errorf("said more than once: %s", <-said)
	}
}

// lines are what a log says.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(bytes.TrimSpace(b))
	return len(b), nil
}
