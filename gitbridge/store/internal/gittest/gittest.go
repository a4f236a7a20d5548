// Package gittest has stock git make and read repositories, for tests of what reads and
// writes packs.
package gittest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/pack"
)

// Run runs git in a directory, and gives what it writes to standard output. No
// configuration of the machine or the user counts.
func Run(t testing.TB, dir string, stdin io.Reader, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@example.org", "GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@example.org", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v: %s", args, err, stderr.String())
	}
	return out
}

// DeltaRepository makes a repository with a history in which git finds differences
// worth storing, and returns its directory.
func DeltaRepository(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	Run(t, dir, nil, "init", "-q")
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf("line %d of a file that changes little", i*i))
	}
	for i := range 10 {
		lines[i*20] = fmt.Sprintf("changed %d", i)
		for _, name := range []string{"a", "b/c", fmt.Sprintf("b/%d", i), "empty"} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			content := strings.Join(lines, "\n") + name
			if name == "empty" {
				content = ""
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		Run(t, dir, nil, "add", ".")
		Run(t, dir, nil, "commit", "-q", "-m", fmt.Sprint("commit ", i))
	}
	Run(t, dir, nil, "tag", "-a", "-m", "tag", "v1")
	return dir
}

// AllObjects are those of a repository, as git reads them.
func AllObjects(t testing.TB, dir string) map[plumbing.Hash]pack.Object {
	t.Helper()
	all := map[plumbing.Hash]pack.Object{}
	out := bufio.NewReader(bytes.NewReader(Run(t, dir, nil, "cat-file", "--batch-all-objects", "--batch")))
	for {
		var id, kind string
		var size int64
		if _, err := fmt.Fscanf(out, "%s %s %d\n", &id, &kind, &size); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(out, data); err != nil {
			t.Fatal(err)
		}
		_, _ = out.ReadByte()
		typ, err := plumbing.ParseObjectType(kind)
		if err != nil {
			t.Fatal(err)
		}
		all[plumbing.NewHash(id)] = pack.Object{Type: typ, Size: size, Data: data}
	}
}
