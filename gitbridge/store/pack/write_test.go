package pack_test

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/internal/gittest"
	"gitbind.dev/gitbridge/store/pack"
)

func TestGitReadsOurPacks(t *testing.T) {
	t.Parallel()
	want := gittest.AllObjects(t, gittest.DeltaRepository(t))
	var b bytes.Buffer
	b.WriteString("commands before it")
	if err := pack.Write(&b, slices.Collect(maps.Values(want))); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()[len("commands before it"):]

	other := t.TempDir()
	gittest.Run(t, other, nil, "init", "-q", "--bare")
	gittest.Run(t, other, bytes.NewReader(data), "index-pack", "--strict", "--stdin")
	if got := gittest.AllObjects(t, other); len(got) != len(want) {
		t.Errorf("git has %d objects, want %d", len(got), len(want))
	}
	if p, err := read(data, generous); err != nil || len(p.Objects) != len(want) {
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
	if err := pack.Write(&b, []pack.Object{{Type: plumbing.TreeObject, Data: tree}}); err != nil {
		t.Fatal(err)
	}
	if b.Len() > len(tree)*2/3 {
		t.Errorf("%d bytes for a tree of %d", b.Len(), len(tree))
	}
	dir := t.TempDir()
	gittest.Run(t, dir, nil, "init", "-q", "--bare")
	gittest.Run(t, dir, &b, "index-pack", "--stdin")
	if got := gittest.AllObjects(t, dir)[plumbing.ComputeHash(plumbing.TreeObject, tree)]; !bytes.Equal(got.Data, tree) {
		t.Errorf("git has a tree of %d bytes, want %d", len(got.Data), len(tree))
	}
}
