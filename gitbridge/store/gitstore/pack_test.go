package gitstore

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/internal/gittest"
	"gitbind.dev/gitbridge/store/internal/object"
	"gitbind.dev/gitbridge/store/pack"
)

func TestGitReadsOurPacks(t *testing.T) {
	t.Parallel()
	dir := gittest.DeltaRepository(t)
	want := gittest.AllObjects(t, dir)
	var objects []object.Object
	for id, o := range want {
		objects = append(objects, object.Object{ID: object.ID(id), Kind: object.Kind(o.Type.String()), Data: o.Data})
	}
	var b bytes.Buffer
	b.WriteString("commands before it")
	if err := writePack(&b, objects); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()[len("commands before it"):]

	other := t.TempDir()
	gittest.Run(t, other, nil, "init", "-q", "--bare")
	gittest.Run(t, other, bytes.NewReader(data), "index-pack", "--strict", "--stdin")
	if got := gittest.AllObjects(t, other); len(got) != len(want) {
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
	gittest.Run(t, dir, nil, "init", "-q", "--bare")
	gittest.Run(t, dir, &b, "index-pack", "--stdin")
	if got := gittest.AllObjects(t, dir)[plumbing.Hash(object.Sum(object.Tree, tree))]; !bytes.Equal(got.Data, tree) {
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
			_, _, _ = fetched{Pack: p}.snapshot(object.ID(name), nil)
		}
	})
}
