package limits_test

import (
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store/limits"
)

func TestAFolderCountsUnderEachOfItsNames(t *testing.T) {
	t.Parallel()
	// a/x, b/f, b/f/x, b/f/y
	var a, f, b, root limits.Tree
	a.AddName(1)
	f.AddName(1)
	f.AddName(1)
	b.AddName(1)
	b.AddBelow(1, f)
	root.AddName(1)
	root.AddBelow(1, a)
	root.AddName(1)
	root.AddBelow(1, b)
	want := limits.Tree{Paths: 6, Bytes: int64(len("a" + "a/x" + "b" + "b/f" + "b/f/x" + "b/f/y")), Depth: 3}
	if root != want {
		t.Errorf("%+v, want %+v", root, want)
	}
}

func TestEachLimitHasWords(t *testing.T) {
	t.Parallel()
	most := limits.Tree{Paths: limits.Paths, Bytes: limits.PathBytes, Depth: limits.Depth}
	if words := most.Exceeded(); words != "" {
		t.Errorf("as much as is allowed: %s", words)
	}
	for words, tree := range map[string]limits.Tree{
		"250000 files": {Paths: limits.Paths + 1}, "32 MiB": {Bytes: limits.PathBytes + 1}, "64 deep": {Depth: limits.Depth + 1},
	} {
		if got := tree.Exceeded(); !strings.Contains(got, words) {
			t.Errorf("%q, want %q", got, words)
		}
		if tree.Shrinks(limits.Tree{}) || !tree.Shrinks(tree) {
			t.Errorf("%s: it is no less than nothing, and no more than itself", words)
		}
	}
}

// However much is added, one more name shows that it is too much: sums do not overflow
// as long as each is asked.
func FuzzTree(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0, 0, 0})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		var tree limits.Tree
		for i, step := range steps {
			before := tree
			if name := int(step) << (i % 25); step%2 == 0 {
				tree.AddName(name)
			} else {
				below := tree
				tree.AddName(name)
				tree.AddBelow(name, below)
			}
			if tree.Paths <= before.Paths || tree.Bytes < before.Bytes || tree.Depth < before.Depth {
				t.Fatalf("%+v is no more than %+v", tree, before)
			}
			if tree.Exceeded() != "" {
				return
			}
		}
	})
}
