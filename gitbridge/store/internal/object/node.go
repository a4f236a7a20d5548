package object

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/store/limits"
)

// Mode is a tree entry's file mode.
type Mode uint32

// The modes that Git has.
const (
	ModeFolder     Mode = 0o040000
	ModeRegular    Mode = 0o100644
	ModeExecutable Mode = 0o100755
	ModeSymlink    Mode = 0o120000
	ModeSubmodule  Mode = 0o160000
)

// Node is an immutable file or folder. Nodes are shared between trees, so
// equal pointers mean equal content; the converse needs the ID.
type Node struct {
	ID   ID
	Mode Mode
	// Files is how many files a folder holds, 1 for a file.
	Files int
	// Size is a file's in bytes. Of a folder it is how long the paths in it are
	// together.
	Size int64
	// data is a file's content, nil if it is not kept, and packed whether it is
	// packed.
	data   []byte
	packed bool
	// depth is how deep a folder's folders lie in each other, and folders how many
	// they are.
	depth   uint16
	folders int32
	// memory is about how many bytes all that is in a folder takes.
	memory int64
	// children are a folder's, in Git's order.
	children []child
}

type child struct {
	name string
	*Node
}

// NewFile makes a file of its content, which it keeps. The ID is given by the
// caller if it is known.
func NewFile(mode Mode, id ID, data []byte) *Node {
	if id.IsZero() {
		id = Sum(Blob, data)
	}
	if data == nil {
		data = []byte{}
	}
	return &Node{ID: id, Mode: mode, Files: 1, Size: int64(len(data)), data: data}
}

// Data is a file's content, if it is kept.
func (n *Node) Data() ([]byte, bool) {
	if !n.packed {
		return n.data, n.data != nil
	}
	plain, err := words.Whole(n.data)
	if err != nil {
		panic(fmt.Errorf("file %s: %w", n.ID, err)) // it was packed by this process
	}
	return plain, true
}

// IsFolder says that n may have children.
func (n *Node) IsFolder() bool { return n.Mode == ModeFolder }

// Extent is how much there is below a folder.
func (n *Node) Extent() limits.Tree {
	if n == nil || !n.IsFolder() {
		return limits.Tree{}
	}
	return limits.Tree{Paths: int64(n.Files) + int64(n.folders), Bytes: n.Size, Depth: int(n.depth)}
}

// add appends a child to a folder that is being made.
func (n *Node) add(c child) {
	n.children = append(n.children, c)
	extent := n.Extent()
	extent.AddName(len(c.name))
	extent.AddBelow(len(c.name), c.Extent())
	n.Files += c.Files
	n.Size, n.depth = extent.Bytes, uint16(min(extent.Depth, math.MaxUint16))
	n.folders = int32(min(extent.Paths-int64(n.Files), math.MaxInt32))
	n.memory += int64(len(c.name)) + childMemory + c.Memory()
}

// nodeMemory is about how many bytes a file or folder takes beside its content, and
// childMemory how many to be found in a folder.
const nodeMemory, childMemory = 120, 24

// Memory is about how many bytes a file or folder takes with all that is in it. What
// is there under several names counts as often.
func (n *Node) Memory() int64 {
	if n == nil {
		return 0
	}
	return nodeMemory + int64(len(n.data)) + n.memory
}

// compareNames is Git's order: a folder's name counts as if it ended in "/".
func compareNames(a string, aFolder bool, b string, bFolder bool) int {
	n := min(len(a), len(b))
	if c := cmp.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return cmp.Compare(next(a, n, aFolder), next(b, n, bFolder))
}

// next is the byte at n, where a name ends with nothing or with "/".
func next(name string, n int, folder bool) int {
	switch {
	case n < len(name):
		return int(name[n])
	case folder:
		return '/'
	}
	return -1
}

func compareChildren(a, b child) int {
	return compareNames(a.name, a.IsFolder(), b.name, b.IsFolder())
}

// child returns the file or folder of a name, or nil.
func (n *Node) child(name string) *Node {
	if n == nil {
		return nil
	}
	for _, folder := range [2]bool{false, true} {
		i, ok := slices.BinarySearchFunc(n.children, name, func(c child, name string) int {
			return compareNames(c.name, c.IsFolder(), name, folder)
		})
		if ok {
			return n.children[i].Node
		}
	}
	return nil
}

// Find returns the file or folder at a path below n, or nil; "" is n itself.
func (n *Node) Find(path string) *Node {
	for more := path != ""; more && n != nil; {
		var name string
		name, path, more = strings.Cut(path, "/")
		n = n.child(name)
	}
	return n
}

// File is a file with its path.
type File struct {
	Path string
	*Node
}

// Walk goes through all files below n, which may be nil, in the order of their
// paths. Each path begins with prefix, which is "" or ends in "/".
func (n *Node) Walk(prefix string) iter.Seq[File] {
	return func(yield func(File) bool) { n.walk(prefix, yield) }
}

func (n *Node) walk(prefix string, yield func(File) bool) bool {
	if n == nil {
		return true
	}
	for _, c := range n.children {
		if c.IsFolder() {
			if !c.walk(prefix+c.name+"/", yield) {
				return false
			}
		} else if !yield(File{prefix + c.name, c.Node}) {
			return false
		}
	}
	return true
}

// Change is a file that differs; Old or New is nil where it is not there.
type Change struct {
	Path     string
	Old, New *Node
}

// Diff goes through the files that differ between two folders (nil: empty), in
// the order of their paths. It descends only where the IDs differ.
func Diff(old, new *Node, prefix string) iter.Seq[Change] {
	return func(yield func(Change) bool) { diff(old, new, prefix, yield) }
}

func diff(old, new *Node, prefix string, yield func(Change) bool) bool {
	if old == new || old != nil && new != nil && old.ID == new.ID {
		return true
	}
	var a, b []child
	if old != nil {
		a = old.children
	}
	if new != nil {
		b = new.children
	}
	for len(a) > 0 || len(b) > 0 {
		var c int
		switch {
		case len(a) == 0:
			c = 1
		case len(b) == 0:
			c = -1
		default:
			c = compareChildren(a[0], b[0])
		}
		var from, to *Node
		var name string
		if c <= 0 {
			name, from, a = a[0].name, a[0].Node, a[1:]
		}
		if c >= 0 {
			name, to, b = b[0].name, b[0].Node, b[1:]
		}
		if !diffChild(prefix+name, from, to, yield) {
			return false
		}
	}
	return true
}

// diffChild compares two files or two folders; never one of each, as these
// have different places in Git's order.
func diffChild(path string, old, new *Node, yield func(Change) bool) bool {
	if old != nil && old.IsFolder() || new != nil && new.IsFolder() {
		return diff(old, new, path+"/", yield)
	}
	if old != nil && new != nil && old.ID == new.ID && old.Mode == new.Mode {
		return true
	}
	return yield(Change{path, old, new})
}
