package gitstore

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/internal/object"
	"gitbind.dev/gitbridge/store/pack"
)

// deltaRepository has a history in which Git finds differences worth storing.
func deltaRepository(t testing.TB) string {
	dir := t.TempDir()
	runGit(t, dir, nil, "init", "-q")
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
		runGit(t, dir, nil, "add", ".")
		runGit(t, dir, nil, "commit", "-q", "-m", fmt.Sprint("commit ", i))
	}
	runGit(t, dir, nil, "tag", "-a", "-m", "tag", "v1")
	return dir
}

func runGit(t testing.TB, dir string, stdin io.Reader, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", args...)
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

// allObjects is what git itself reads.
func allObjects(t testing.TB, dir string) map[object.ID]object.Received {
	all := map[object.ID]object.Received{}
	out := bufio.NewReader(bytes.NewReader(runGit(t, dir, nil, "cat-file", "--batch-all-objects", "--batch")))
	for {
		var id, kind string
		var size int
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
		parsed, err := object.ParseID(id)
		if err != nil {
			t.Fatal(err)
		}
		all[parsed] = object.Received{Kind: object.Kind(kind), Size: int64(size), Data: data}
	}
}

func TestGitReadsOurPacks(t *testing.T) {
	t.Parallel()
	dir := deltaRepository(t)
	want := allObjects(t, dir)
	var objects []object.Object
	for id, o := range want {
		objects = append(objects, object.Object{ID: id, Kind: o.Kind, Data: o.Data})
	}
	var b bytes.Buffer
	b.WriteString("commands before it")
	if err := writePack(&b, objects); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()[len("commands before it"):]

	other := t.TempDir()
	runGit(t, other, nil, "init", "-q", "--bare")
	runGit(t, other, bytes.NewReader(data), "index-pack", "--strict", "--stdin")
	if got := allObjects(t, other); len(got) != len(want) {
		t.Errorf("git has %d objects, want %d", len(got), len(want))
	}
	if p, err := pack.Read(bytes.NewReader(data), pack.Options{Limits: pack.Limits{Objects: 1000}}); err != nil || len(p.Objects) != len(want) {
		t.Errorf("we read %v, want %d objects: %v", p, len(want), err)
	}
}

// With each change in a large namespace its whole tree is sent, and lies in the
// repository as it came until git has made a delta of it.
func TestALongTreeIsSentCompressed(t *testing.T) {
	t.Parallel()
	var tree []byte
	for i := range 1000 {
		id := sha1.Sum(fmt.Append(nil, i))
		tree = append(fmt.Appendf(tree, "100644 orders-%06d.yaml\x00", i), id[:]...)
	}
	var b bytes.Buffer
	if err := writePack(&b, []object.Object{{ID: object.Sum(object.Tree, tree), Kind: object.Tree, Data: tree}}); err != nil {
		t.Fatal(err)
	}
	if b.Len() > len(tree)*2/3 {
		t.Errorf("%d bytes for a tree of %d", b.Len(), len(tree))
	}
	dir := t.TempDir()
	runGit(t, dir, nil, "init", "-q", "--bare")
	runGit(t, dir, &b, "index-pack", "--stdin")
	if got := allObjects(t, dir)[object.Sum(object.Tree, tree)]; !bytes.Equal(got.Data, tree) {
		t.Errorf("git has a tree of %d bytes, want %d", len(got.Data), len(tree))
	}
}

func TestLargeFilesAreNotKept(t *testing.T) {
	t.Parallel()
	keep := keepFiles(3*largeFile + 1)
	for i, c := range []struct {
		kind plumbing.ObjectType
		size int64
		want bool
	}{
		{plumbing.TreeObject, 10 * largeFile, true},
		{plumbing.BlobObject, 2 * largeFile, true},
		{plumbing.BlobObject, 2 * largeFile, false},
		{plumbing.BlobObject, largeFile, true},
		{plumbing.BlobObject, largeFile + 1, true},
		{plumbing.BlobObject, largeFile + 1, false},
		{plumbing.CommitObject, maxObject, true},
		{plumbing.CommitObject, maxObject + 1, false},
	} {
		if got := keep(c.kind, c.size); got != c.want {
			t.Errorf("%d: %s of %d bytes: %v", i, c.kind, c.size, got)
		}
	}
	if !keepCommits(plumbing.CommitObject, 1000) || keepCommits(plumbing.CommitObject, maxObject+1) || keepCommits(plumbing.TreeObject, 1) {
		t.Error("not the commits alone are kept")
	}
}

func FuzzSnapshot(f *testing.F) {
	empty := object.Object{ID: object.EmptyTree, Kind: object.Tree}
	var b bytes.Buffer
	if err := writePack(&b, []object.Object{{Kind: object.Blob, Data: []byte("content of a file")}, empty, object.CommitData{Tree: empty.ID}.Encode()}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := pack.Read(bytes.NewReader(data), pack.Options{Limits: pack.Limits{Objects: 1000, Kept: 1 << 20}, Keep: keepFiles(1 << 20)})
		if err != nil {
			return
		}
		for name := range p.Objects {
			_, _, _ = fetched{p}.snapshot(object.ID(name), nil)
		}
	})
}
