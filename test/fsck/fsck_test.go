package fsck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/test/fsck"
	"gitbind.dev/test/githost"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	dir, clone := filepath.Join(t.TempDir(), "bare.git"), filepath.Join(t.TempDir(), "clone")
	git := func(in string, args ...string) string {
		out, err := githost.Command(in, args...).CombinedOutput()
		if err != nil {
			t.Errorf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(number int) {
		for _, folder := range []string{"a", "b", "c", "d"} {
			file := filepath.Join(clone, folder, fmt.Sprint(number%10), "file")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(file, fmt.Appendf(nil, "%s %d", folder, number), 0o600); err != nil {
				t.Error(err)
			}
		}
		git(clone, "add", ".")
		git(clone, "commit", "-q", "-m", fmt.Sprint(number))
		git(clone, "push", "-q", dir, "HEAD:main")
	}
	git("", "init", "-q", "--bare", "--initial-branch=main", dir)
	git("", "init", "-q", clone)
	if err := fsck.Check(t.Context(), dir); err != nil {
		t.Errorf("a repository without a commit: %v", err)
	}
	// Enough objects that listing them takes as long as a push.
	for number := range 15 {
		commit(number)
	}
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		for number := range 30 {
			commit(100 + number)
		}
	}()
	for checks := 0; ; checks++ {
		if err := fsck.Check(t.Context(), dir, "--strict"); err != nil {
			t.Errorf("while somebody pushes, check %d: %v", checks, err)
		}
		select {
		case <-pushed:
		default:
			continue
		}
		break
	}

	tree := git(dir, "rev-parse", "main:a")
	if err := os.Remove(filepath.Join(dir, "objects", tree[:2], tree[2:])); err != nil {
		t.Fatal(err)
	}
	if err := fsck.Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), tree) {
		t.Errorf("without the tree %s: %v", tree, err)
	}

	root := filepath.Dir(dir)
	git("", "init", "-q", "--bare", filepath.Join(root, "another.git"))
	if n, err := fsck.CheckAll(t.Context(), root); n != 2 || err == nil || !strings.Contains(err.Error(), tree) {
		t.Errorf("of %d repositories: %v", n, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if n, err := fsck.CheckAll(t.Context(), root); n != 1 || err != nil {
		t.Errorf("of %d repositories: %v", n, err)
	}
	if _, err := fsck.CheckAll(t.Context(), filepath.Join(root, "another.git")); err == nil {
		t.Error("a folder without any is clean")
	}
}
