package object

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/store/internal/deflate"
)

// What an Editor refuses.
var (
	ErrNotExist = errors.New("no such file")
	ErrIsFolder = errors.New("is a folder")
	ErrIsFile   = errors.New("a folder of its path is a file")
)

// Editor changes a tree without touching the one it began with. It remembers
// the order of changes, so that the last ones can be taken back.
type Editor struct {
	root    *dir
	journal []Change
}

// dir is a folder with changes over an immutable one.
type dir struct {
	base *Node
	over map[string]slot
	// live counts the files and the folders with files in them. A dir without
	// any does not exist for its parent.
	live int
}

// slot is what is under a name: at most one of the three.
type slot struct {
	file   *Node
	folder *Node
	dir    *dir
}

func (s slot) isFolder() bool { return s.folder != nil || s.dir != nil && s.dir.live > 0 }

// NewEditor begins with a folder, or with nothing if it is nil.
func NewEditor(root *Node) *Editor { return &Editor{root: newDir(root)} }

func newDir(base *Node) *dir {
	d := &dir{base: base}
	if base != nil {
		d.live = len(base.children)
	}
	return d
}

func (d *dir) get(name string) slot {
	if s, ok := d.over[name]; ok {
		return s
	}
	switch n := d.base.child(name); {
	case n == nil:
		return slot{}
	case n.IsFolder():
		return slot{folder: n}
	default:
		return slot{file: n}
	}
}

func (d *dir) put(name string, s slot) {
	if d.over == nil {
		d.over = map[string]slot{}
	}
	d.over[name] = s
}

// Find returns the file at a path, or nil.
func (e *Editor) Find(path string) *Node {
	d := e.root
	for {
		name, rest, more := strings.Cut(path, "/")
		s := d.get(name)
		switch {
		case !more:
			return s.file
		case s.folder != nil:
			if n := s.folder.Find(rest); n != nil && !n.IsFolder() {
				return n
			}
			return nil
		case s.dir == nil:
			return nil
		}
		d, path = s.dir, rest
	}
}

// Set puts a file at a path, or removes the one there if it is nil.
func (e *Editor) Set(path string, file *Node) error {
	prev, err := e.root.set(path, file)
	if err != nil {
		return err
	}
	e.journal = append(e.journal, Change{Path: path, Old: prev, New: file})
	return nil
}

func (d *dir) set(path string, file *Node) (prev *Node, err error) {
	name, rest, more := strings.Cut(path, "/")
	s := d.get(name)
	if !more {
		switch {
		case file == nil && s.file == nil:
			return nil, ErrNotExist
		case s.isFolder():
			return nil, ErrIsFolder
		}
		d.put(name, slot{file: file})
		d.live += count(file != nil) - count(s.file != nil)
		return s.file, nil
	}
	switch {
	case file == nil && !s.isFolder():
		return nil, ErrNotExist
	case s.file != nil:
		return nil, ErrIsFile
	}
	sub := s.dir
	if sub == nil {
		sub = newDir(s.folder)
	}
	before := sub.live > 0
	if prev, err = sub.set(rest, file); err != nil {
		return nil, err
	}
	d.put(name, slot{dir: sub})
	d.live += count(sub.live > 0) - count(before)
	return prev, nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Mark is a point to go back to.
func (e *Editor) Mark() int { return len(e.journal) }

// Rollback takes back all changes since a mark.
func (e *Editor) Rollback(mark int) {
	for _, c := range slices.Backward(e.journal[mark:]) {
		// Each step back leads to a tree that was there, so it cannot fail.
		_, _ = e.root.set(c.Path, c.Old)
	}
	e.journal = e.journal[:mark]
}

// Changes are the files that differ between a mark and now, without those
// that were changed and changed back.
func (e *Editor) Changes(mark int) []Change {
	at := map[string]int{}
	var net []Change
	for _, c := range e.journal[mark:] {
		if i, ok := at[c.Path]; ok {
			net[i].New = c.New
			continue
		}
		at[c.Path] = len(net)
		net = append(net, c)
	}
	return slices.DeleteFunc(net, Change.IsNone)
}

// IsNone says that both sides are equal.
func (c Change) IsNone() bool {
	if c.Old == nil || c.New == nil {
		return c.Old == c.New
	}
	return c.Old.ID == c.New.ID && c.Old.Mode == c.New.Mode
}

// Walk goes through all files below a folder ("" is the root) as they are
// when it begins, so the tree may be changed meanwhile.
func (e *Editor) Walk(folder string) iter.Seq[File] {
	return func(yield func(File) bool) {
		var all []File
		keep := func(f File) bool { all = append(all, f); return true }
		prefix, s := "", slot{dir: e.root}
		if folder != "" {
			prefix = folder + "/"
			for more := true; more && s != (slot{}); {
				var name string
				name, folder, more = strings.Cut(folder, "/")
				s = s.child(name)
			}
		}
		s.walk(prefix, keep)
		for _, f := range all {
			if !yield(f) {
				return
			}
		}
	}
}

func (s slot) child(name string) slot {
	if s.dir != nil {
		return s.dir.get(name)
	}
	return newDir(s.folder).get(name)
}

func (s slot) walk(prefix string, yield func(File) bool) {
	if s.dir == nil {
		s.folder.walk(prefix, yield)
		return
	}
	for _, c := range s.dir.list() {
		switch {
		case c.file != nil:
			yield(File{prefix + c.name, c.file})
		default:
			c.walk(prefix+c.name+"/", yield)
		}
	}
}

type namedSlot struct {
	name string
	slot
}

func compareSlots(a, b namedSlot) int {
	return compareNames(a.name, a.file == nil, b.name, b.file == nil)
}

// list is what is in the folder, in Git's order.
func (d *dir) list() []namedSlot {
	changed := make([]namedSlot, 0, len(d.over))
	for name, s := range d.over {
		if s.file != nil || s.isFolder() {
			changed = append(changed, namedSlot{name, s})
		}
	}
	slices.SortFunc(changed, compareSlots)
	if d.base == nil {
		return changed
	}
	all := make([]namedSlot, 0, d.live)
	for _, c := range d.base.children {
		if _, ok := d.over[c.name]; ok {
			continue
		}
		s := namedSlot{c.name, slot{file: c.Node}}
		if c.IsFolder() {
			s.slot = slot{folder: c.Node}
		}
		for len(changed) > 0 && compareSlots(changed[0], s) < 0 {
			all, changed = append(all, changed[0]), changed[1:]
		}
		all = append(all, s)
	}
	return append(all, changed...)
}

// Freeze makes an immutable tree of the present state and gives the objects
// that the tree it began with, or that of the last Freeze, lacks. Folders
// without files are left out; the root is there even if empty.
func (e *Editor) Freeze(emit func(Object)) *Node {
	root := e.root.freeze(emit)
	if root == nil {
		root = &Node{ID: EmptyTree, Mode: ModeFolder}
		emit(Object{ID: EmptyTree, Kind: Tree})
	}
	e.root, e.journal = newDir(root), nil
	return root
}

func (d *dir) freeze(emit func(Object)) *Node {
	if len(d.over) == 0 {
		return d.base
	}
	if d.live == 0 {
		return nil
	}
	n := &Node{Mode: ModeFolder, children: make([]child, 0, d.live)}
	for _, s := range d.list() {
		c := child{s.name, s.file}
		switch {
		case s.folder != nil:
			c.Node = s.folder
		case s.dir != nil:
			c.Node = s.dir.freeze(emit)
		default:
			if old := d.base.child(s.name); old == nil || old.ID != s.file.ID {
				data, _ := s.file.Data()
				emit(Object{ID: s.file.ID, Kind: Blob, Data: data})
				if !s.file.packed && deflate.Needed() {
					c.Node = &Node{ID: s.file.ID, Mode: s.file.Mode, Files: 1, Size: s.file.Size}
					c.keep(data, true)
				}
			}
		}
		n.add(c)
	}
	data := encodeTree(n.children)
	n.ID = Sum(Tree, data)
	if d.base != nil && n.ID == d.base.ID {
		return d.base
	}
	emit(Object{ID: n.ID, Kind: Tree, Data: data})
	return n
}
