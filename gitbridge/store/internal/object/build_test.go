package object

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/store/limits"
)

func sent(objs ...Object) objects {
	o := objects{}
	for _, obj := range objs {
		o.emit(obj)
	}
	return o
}

func treeObject(children ...child) Object {
	data := encodeTree(children)
	return Object{ID: Sum(Tree, data), Kind: Tree, Data: data}
}

func folder(o Object) *Node { return &Node{ID: o.ID, Mode: ModeFolder} }

func TestBuildRefuses(t *testing.T) {
	file := NewFile(ModeRegular, ID{}, []byte("x"))
	blob := Object{ID: file.ID, Kind: Blob, Data: file.data}

	asFolder := treeObject(child{"d", folder(blob)})
	if _, err := sent(blob, asFolder).build(asFolder.ID, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("file in the place of a folder: %v", err)
	}
	inner := treeObject(child{"f", file})
	asFile := treeObject(child{"f", &Node{ID: inner.ID, Mode: ModeRegular}})
	if _, err := sent(blob, inner, asFile).build(asFile.ID, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("folder in the place of a file: %v", err)
	}
	if _, err := sent(inner).build(inner.ID, nil); !errors.Is(err, ErrMissing) {
		t.Errorf("file missing: %v", err)
	}
	if _, err := sent(blob).build(inner.ID, nil); !errors.Is(err, ErrMissing) {
		t.Errorf("folder missing: %v", err)
	}
}

// pathBomb are few objects that name very many paths: folders in each other, each
// with as many names for the next one.
func pathBomb(leaf Object, levels, names int, name func(i int) string, more ...Object) (root Object, all []Object) {
	root, all = leaf, slices.Concat(more, []Object{leaf})
	for range levels {
		var children []child
		for i := range names {
			children = append(children, child{name(i), folder(root)})
		}
		root = treeObject(children...)
		all = append(all, root)
	}
	return root, all
}

func TestH1_ATreeOfTooManyPathsIsRefusedBeforeItIsBuilt(t *testing.T) {
	file := NewFile(ModeRegular, ID{}, []byte("x"))
	blob, leaf := Object{ID: file.ID, Kind: Blob, Data: file.data}, treeObject(child{"f", file})
	short := func(i int) string { return fmt.Sprintf("%02d", i) }
	long := func(i int) string { return fmt.Sprint(i) + strings.Repeat("n", 100_000) }
	submodule := treeObject(child{"s", &Node{ID: ID{1}, Mode: ModeSubmodule}})
	for what, c := range map[string]struct {
		leaf          Object
		levels, names int
		name          func(int) string
		words         string
	}{
		"2^20 files in 21 folders":                 {leaf, 20, 2, short, "more than 250000 files and folders"},
		"2^60 files in 61 folders":                 {leaf, 60, 2, short, "more than 250000 files and folders"},
		"a million files in six folders":           {leaf, 6, 10, short, "more than 250000 files and folders"},
		"2^40 folders with no file in them":        {Object{ID: EmptyTree, Kind: Tree}, 40, 2, short, "more than 250000 files and folders"},
		"2^20 submodules":                          {submodule, 20, 2, short, "more than 250000 files and folders"},
		"long names, many times":                   {leaf, 8, 4, long, "paths of more than 32 MiB in all"},
		"64 folders in each other":                 {leaf, 64, 1, short, "folders more than 64 deep"},
		"64 folders in each other with no file":    {Object{ID: EmptyTree, Kind: Tree}, 65, 1, short, "folders more than 64 deep"},
		"very many folders in each other":          {leaf, 5000, 1, short, "folders more than 64 deep"},
		"as many paths as are allowed":             {leaf, 16, 2, short, ""},
		"as many folders in each other as allowed": {leaf, 63, 1, short, ""},
	} {
		t.Run(what, func(t *testing.T) {
			root, all := pathBomb(c.leaf, c.levels, c.names, c.name, blob)
			objects := sent(all...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n, err := objects.build(root.ID, nil)
			runtime.ReadMemStats(&after)
			if (c.words == "") != (err == nil) || c.words != "" && (!errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("error %v, want %q", err, c.words)
			}
			if err == nil && n.Extent().Exceeded() != "" {
				t.Errorf("it has %+v", n.Extent())
			}
			if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 {
				t.Errorf("%d MiB were allocated", got)
			}
		})
	}
	// One folder with more names than are allowed, before a node is made of each.
	children := make([]child, 0, 300_000)
	for i := range cap(children) {
		children = append(children, child{fmt.Sprintf("%06d", i), file})
	}
	wide := treeObject(children...)
	if _, err := sent(blob, wide).build(wide.ID, nil); !errors.Is(err, ErrLimit) {
		t.Errorf("300,000 files in one folder: %v", err)
	}
}

// What is counted while a tree is read and while one is edited is what Walk finds.
func TestExtentIsWhatWalkFinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want, e, all := model{}, NewEditor(nil), objects{}
		for range rapid.IntRange(1, 20).Draw(t, "edits") {
			change(t, e, want)
		}
		made := e.Freeze(all.emit)
		read, err := all.build(made.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		var x limits.Tree
		folders := map[string]bool{}
		for f := range made.Walk("") {
			x.Paths, x.Bytes, x.Depth = x.Paths+1, x.Bytes+int64(len(f.Path)), max(x.Depth, 1+strings.Count(f.Path, "/"))
			for at := path.Dir(f.Path); at != "."; at = path.Dir(at) {
				folders[at] = true
			}
		}
		for folder := range folders {
			x.Paths, x.Bytes = x.Paths+1, x.Bytes+int64(len(folder))
		}
		if made.Extent() != x || read.Extent() != x {
			t.Fatalf("edited %+v, read %+v, want %+v", made.Extent(), read.Extent(), x)
		}
	})
}

func TestBuildTakesMovedFilesFromTheOldTree(t *testing.T) {
	e := NewEditor(nil)
	must(t, e.Set("a/b/f", NewFile(ModeRegular, ID{}, []byte("content"))))
	old := e.Freeze(func(Object) {})

	// Sent is only what a remote sends that knows the old tree.
	moved := treeObject(child{"x", folder(Object{ID: old.Find("a/b").ID})}, child{"y", &Node{ID: old.Find("a/b/f").ID, Mode: ModeExecutable}})
	n, err := sent(moved).build(moved.ID, old)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"x/f", "y"} {
		if data, _ := n.Find(path).Data(); string(data) != "content" {
			t.Errorf("%s: %q", path, data)
		}
	}
	if n.Find("y").Mode != ModeExecutable || n.Find("x/f") != old.Find("a/b/f") {
		t.Error("not what was moved")
	}
}

func TestLargeFilesAreThereWithoutContent(t *testing.T) {
	large := NewFile(ModeRegular, ID{}, make([]byte, 101))
	root := treeObject(child{"f", large})
	n, err := sent(Object{ID: large.ID, Kind: Blob, Data: large.data}, root).build(root.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := n.Find("f")
	if _, ok := f.Data(); ok || f.Size != 101 {
		t.Errorf("kept: %v, size: %d", ok, f.Size)
	}

	b := Builder{Received: func(id ID) (Received, bool) { r, ok := sent(root)[id]; return r, ok }, MaxFile: 100, LostFiles: true}
	n, err = b.Build(root.ID)
	if err != nil {
		t.Fatal(err)
	}
	f = n.Find("f")
	if _, ok := f.Data(); ok || f.Size <= 100 {
		t.Errorf("kept: %v, size: %d", ok, f.Size)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
