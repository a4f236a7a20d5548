package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitbind.dev/test/fsck"
)

// Git that outlives the host ends a push while the folder is copied: it moves the objects to the
// others, and then the branch.
func TestABackupHasTheObjectsOfItsBranchesThoughGitOutlivesTheHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, pushed := &host{repository: filepath.Join(dir, "repository.git")}, filepath.Join(dir, "pushed.git")
	if _, err := git(t.Context(), dir, "init", "--quiet", "--bare", "--initial-branch=main", h.repository); err != nil {
		t.Fatal(err)
	}
	commitFile(t, h.repository, "one", "")
	if err := os.CopyFS(pushed, os.DirFS(h.repository)); err != nil {
		t.Fatal(err)
	}
	commitFile(t, pushed, "two", "from refs/heads/main^0\n")

	// What is copied after the packs and before the branches takes longer than the push.
	const unfinished = "objects/tmp_objdir-incoming-other"
	if err := os.Mkdir(filepath.Join(h.repository, unfinished), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(h.repository, unfinished, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	backup := filepath.Join(dir, "backup.git")
	ended := make(chan error, 1)
	go func() {
		for _, err := os.Stat(filepath.Join(backup, unfinished)); err != nil && t.Context().Err() == nil; _, err = os.Stat(filepath.Join(backup, unfinished)) {
			sleep(t.Context(), time.Millisecond)
		}
		paths, err := filepath.Glob(filepath.Join(pushed, "objects/pack/*"))
		for _, path := range append(paths, filepath.Join(pushed, "refs/heads/main")) {
			err = errors.Join(err, os.Rename(path, filepath.Join(h.repository, strings.TrimPrefix(path, pushed))))
		}
		ended <- err
	}()
	if err := h.copyTo(t.Context(), backup); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := fsck.Check(t.Context(), backup); err != nil {
		t.Error(err)
	}
}

// commitFile has a commit of one more file on main, and its objects in a pack.
func commitFile(t *testing.T, repository, name, from string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "-C", repository, "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet")
	cmd.Stdin = strings.NewReader("commit refs/heads/main\ncommitter a <a@example.com> 0 +0000\ndata 0\n" + from + "M 100644 inline " + name + "\ndata 3\n" + name + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("commit %s: %v: %s", name, err, out)
	}
}
