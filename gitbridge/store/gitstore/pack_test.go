package gitstore

import (
	"bytes"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/internal/object"
	"gitbind.dev/gitbridge/store/pack"
)

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
