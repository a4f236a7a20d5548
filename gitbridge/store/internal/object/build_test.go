package object

import (
	"errors"
	"fmt"
	"testing"
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

	bomb := treeObject(child{"f", file})
	all := []Object{blob, bomb}
	for range 5 {
		var children []child
		for i := range 10 {
			children = append(children, child{fmt.Sprint(i), folder(bomb)})
		}
		bomb = treeObject(children...)
		all = append(all, bomb)
	}
	if _, err := sent(all...).build(bomb.ID, nil); !errors.Is(err, ErrLimit) {
		t.Errorf("tree of 100,000 files in 7 objects: %v", err)
	}

	deep := treeObject(child{"f", file})
	all = []Object{blob, deep}
	for range 10 {
		deep = treeObject(child{"d", folder(deep)})
		all = append(all, deep)
	}
	if _, err := sent(all...).build(deep.ID, nil); !errors.Is(err, ErrLimit) {
		t.Errorf("ten folders in each other: %v", err)
	}

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

	b := Builder{Received: func(id ID) (Received, bool) { r, ok := sent(root)[id]; return r, ok }, Limits: Limits{Depth: 1, Files: 1, File: 100}, LostFiles: true}
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
