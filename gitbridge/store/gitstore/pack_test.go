package gitstore

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store/internal/object"
)

var generous = packLimits{objects: maxObjects, object: maxObject, large: 1 << 30, all: 1 << 30}

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

func packs(t testing.TB, dir string) map[string][]byte {
	return map[string][]byte{
		"deltas by offset": runGit(t, dir, nil, "pack-objects", "--all", "--stdout", "-q", "--delta-base-offset", "--window=50", "--no-reuse-delta"),
		"deltas by name":   runGit(t, dir, nil, "pack-objects", "--all", "--stdout", "-q", "--window=50", "--no-reuse-delta"),
		"no deltas":        runGit(t, dir, nil, "pack-objects", "--all", "--stdout", "-q", "--window=0"),
	}
}

func TestPacksAreReadAsGitReadsThem(t *testing.T) {
	t.Parallel()
	dir := deltaRepository(t)
	want := allObjects(t, dir)
	for name, data := range packs(t, dir) {
		p, err := readPack(bytes.NewReader(data), generous)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(p.objects) != len(want) || p.lost {
			t.Errorf("%s: %d objects, want %d; lost: %v", name, len(p.objects), len(want), p.lost)
		}
		for id, o := range want {
			if got := p.objects[id]; got.Kind != o.Kind || got.Size != o.Size || !bytes.Equal(got.Data, o.Data) || got.Data == nil {
				t.Errorf("%s: %s %s of %d bytes is read as %s of %d", name, o.Kind, id, o.Size, got.Kind, got.Size)
			}
		}

		p, err = readPack(bytes.NewReader(data), packLimits{objects: maxObjects, object: maxObject, large: 1 << 30, all: 1 << 30, only: object.Commit})
		if err != nil || len(p.objects) != 10 {
			t.Errorf("%s, only commits: %d, %v", name, len(p.objects), err)
		}

		// The files are too large, the folders are not.
		p, err = readPack(bytes.NewReader(data), packLimits{objects: maxObjects, object: 5000, large: 1 << 30, all: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		for id, o := range want {
			switch got, ok := p.objects[id]; {
			case o.Size <= 5000 && !bytes.Equal(got.Data, o.Data):
				t.Errorf("%s: small %s %s is not there", name, o.Kind, id)
			case o.Size > 5000 && got.Data != nil:
				t.Errorf("%s: large %s is kept", name, id)
			case o.Size > 5000 && !ok && !p.lost:
				t.Errorf("%s: %s is lost and nothing is said", name, id)
			}
		}

		if _, err := readPack(bytes.NewReader(data), packLimits{objects: maxObjects, object: maxObject, all: 10_000}); !errors.Is(err, errTooMuch) {
			t.Errorf("%s, little room: %v", name, err)
		}
		if _, err := readPack(bytes.NewReader(data[:len(data)/2]), generous); err == nil {
			t.Errorf("%s: half a pack is no error", name)
		}
		broken := bytes.Clone(data)
		broken[len(broken)-1] ^= 1
		if _, err := readPack(bytes.NewReader(broken), generous); err == nil {
			t.Errorf("%s: a wrong checksum is no error", name)
		}
	}
}

func TestAThinPackIsRefused(t *testing.T) {
	t.Parallel()
	dir := deltaRepository(t)
	data := runGit(t, dir, strings.NewReader("HEAD\n^HEAD~\n"), "pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset")
	if _, err := readPack(bytes.NewReader(data), generous); !errors.Is(err, errPack) {
		t.Errorf("got %v", err)
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
	if p, err := readPack(bytes.NewReader(data), generous); err != nil || len(p.objects) != len(want) {
		t.Errorf("we have %d objects, want %d: %v", len(p.objects), len(want), err)
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

// A chain of deltas in the wrong order must not need a stack as deep as it is
// long.
func TestALongChainOfDeltasInTheWrongOrder(t *testing.T) {
	t.Parallel()
	const length = 200_000
	base := []byte("base")
	ids := []object.ID{object.Sum(object.Blob, base)}
	contents := [][]byte{base}
	for i := range length {
		contents = append(contents, fmt.Appendf(nil, "%07d", i))
		ids = append(ids, object.Sum(object.Blob, contents[i+1]))
	}
	p := &pack{
		objects:  map[object.ID]object.Received{},
		limits:   generous,
		byOffset: map[int64]object.ID{},
		waiting:  waiting{byID: map[object.ID][]delta{}, byOffset: map[int64][]delta{}},
	}
	for i := range length {
		d := append([]byte{byte(len(contents[i])), 7, 7}, contents[i+1]...)
		p.waiting.byID[ids[i]] = []delta{{int64(i + 100), d}}
	}
	p.add(1, object.Blob, base)
	if err := p.applyReady(); err != nil {
		t.Fatal(err)
	}
	if len(p.objects) != length+1 {
		t.Errorf("%d objects", len(p.objects))
	}
}

// packOfDeltas has a blob, and blobs that differ from it, by offset and by name.
func packOfDeltas(t testing.TB, base []byte) []byte {
	var b bytes.Buffer
	if err := writePack(&b, []object.Object{{Kind: object.Blob, Data: base}, {Kind: object.Blob}, {Kind: object.Blob}}); err != nil {
		t.Fatal(err)
	}
	end := b.Len() - 20
	empty := (end - 12 - packedSize(t, base)) / 2
	b.Truncate(end - 2*empty)
	appended := append([]byte{byte(len(base)), byte(len(base) + 1), 0x90, byte(len(base)), 1}, 'x')
	id := object.Sum(object.Blob, base)
	for _, header := range [][]byte{{0x60 | byte(len(appended)), byte(b.Len() - 12)}, append([]byte{0x70 | byte(len(appended))}, id[:]...)} {
		b.Write(header)
		w := zlib.NewWriter(&b)
		_, _ = w.Write(appended)
		_ = w.Close()
	}
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

func packedSize(t testing.TB, data []byte) int {
	var b bytes.Buffer
	if err := writeObject(&b, object.Object{Kind: object.Blob, Data: data}); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestDeltasOfBothKinds(t *testing.T) {
	t.Parallel()
	p, err := readPack(bytes.NewReader(packOfDeltas(t, []byte("content of a file"))), generous)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("content of a filex")
	if got := p.objects[object.Sum(object.Blob, want)]; !bytes.Equal(got.Data, want) || len(p.objects) != 2 {
		t.Errorf("%d objects, %q", len(p.objects), got.Data)
	}
}

func FuzzReadPack(f *testing.F) {
	file, empty := []byte("content of a file"), object.Object{ID: object.EmptyTree, Kind: object.Tree}
	var b bytes.Buffer
	if err := writePack(&b, []object.Object{{Kind: object.Blob, Data: file}, empty, object.CommitData{Tree: empty.ID}.Encode()}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(packOfDeltas(f, file))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := packLimits{objects: maxObjects, object: 1 << 16, large: 1 << 20, all: 1 << 20}
		p, err := readPack(bytes.NewReader(data), limits)
		if err != nil {
			return
		}
		for id, o := range p.objects {
			if o.Data != nil && object.Sum(o.Kind, o.Data) != id {
				t.Errorf("%s is not %s", o.Data, id)
			}
			_, _, _ = p.snapshot(id, nil)
		}
	})
}
