package object

import (
	"errors"
	"fmt"

	"gitbind.dev/gitbridge/store/internal/deflate"
	"gitbind.dev/gitbridge/store/limits"
)

// Received is an object that a remote sent.
type Received struct {
	Kind Kind
	Size int64
	// Data is the content, or nil if it was too large to keep.
	Data []byte
}

var (
	// ErrMissing says that an object is neither received nor in the old tree.
	ErrMissing = errors.New("object missing")
	// ErrLimit says that a tree is beyond a limit.
	ErrLimit = errors.New("tree too large")
)

// Builder makes a tree of received objects, and takes what was not received
// from an old tree.
type Builder struct {
	Received func(ID) (Received, bool)
	// Old is the tree that the remote was told of; may be nil.
	Old *Node
	// MaxFile is the size up to which a file's content is kept.
	MaxFile int64
	// LostFiles says that some large objects could not be read, so that a file
	// may be missing. It is then in the tree as one too large to keep.
	LostFiles bool
	// Lost says, afterwards, that one is.
	Lost bool

	made  map[ID]*Node
	index map[ID]*Node
}

// Build makes the tree of that name.
func (b *Builder) Build(root ID) (*Node, error) {
	b.made = map[ID]*Node{EmptyTree: {ID: EmptyTree, Mode: ModeFolder}}
	return b.folder(root, b.Old, 0)
}

// folder makes one folder; old is what was at its path, a good guess.
func (b *Builder) folder(id ID, old *Node, depth int) (*Node, error) {
	if old != nil && old.ID == id && old.IsFolder() {
		return old, nil
	}
	if n, ok := b.made[id]; ok && n.IsFolder() {
		return n, nil
	}
	// No deeper, even where it leads to nothing.
	if words := (limits.Tree{Depth: depth}).Exceeded(); words != "" {
		return nil, tooMuch(words)
	}
	r, ok := b.Received(id)
	if !ok {
		if n := b.inOld(id); n != nil && n.IsFolder() {
			return n, nil
		}
		return nil, fmt.Errorf("%w: tree %s", ErrMissing, id)
	}
	if r.Kind != Tree || r.Data == nil {
		return nil, malformed("%s %s of %d bytes in the place of a tree", r.Kind, id, r.Size)
	}
	entries, err := DecodeTree(r.Data)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", id, err)
	}
	if words := (limits.Tree{Paths: int64(len(entries))}).Exceeded(); words != "" {
		return nil, tooMuch(words)
	}
	n := &Node{ID: id, Mode: ModeFolder, children: make([]child, 0, len(entries))}
	for _, e := range entries {
		c, err := b.entry(e, old.child(e.Name), depth)
		if err != nil {
			return nil, err
		}
		n.add(child{e.Name, c})
		if words := n.Extent().Exceeded(); words != "" {
			return nil, tooMuch(words)
		}
	}
	b.made[id] = n
	return n, nil
}

func tooMuch(words string) error { return fmt.Errorf("%w: %s", ErrLimit, words) }

func (b *Builder) entry(e Entry, old *Node, depth int) (*Node, error) {
	if e.Mode == ModeFolder {
		return b.folder(e.ID, old, depth+1)
	}
	if old != nil && old.ID == e.ID && old.Mode == e.Mode {
		return old, nil
	}
	n := &Node{ID: e.ID, Mode: e.Mode, Files: 1}
	if e.Mode == ModeSubmodule {
		return n, nil
	}
	if m := b.made[e.ID]; m != nil && !m.IsFolder() {
		n.Size, n.data, n.packed = m.Size, m.data, m.packed
		return n, nil
	}
	switch r, ok := b.Received(e.ID); {
	case ok && r.Kind != Blob:
		return nil, malformed("%s %s in the place of a file", r.Kind, e.ID)
	case ok:
		if n.Size = r.Size; r.Size <= b.MaxFile && r.Data != nil {
			n.keep(r.Data, deflate.Needed())
		}
	default:
		o := b.inOld(e.ID)
		if o == nil || o.IsFolder() {
			if !b.LostFiles {
				return nil, fmt.Errorf("%w: file %s", ErrMissing, e.ID)
			}
			b.Lost = true
			o = &Node{Size: b.MaxFile + 1}
		}
		n.Size, n.data, n.packed = o.Size, o.data, o.packed
	}
	b.made[e.ID] = n
	return n, nil
}

// inOld looks for an object anywhere in the old tree: a moved file is not sent
// again.
func (b *Builder) inOld(id ID) *Node {
	if b.index == nil {
		b.index = map[ID]*Node{}
		b.indexFolder(b.Old)
	}
	return b.index[id]
}

func (b *Builder) indexFolder(n *Node) {
	if n == nil || b.index[n.ID] != nil {
		return
	}
	b.index[n.ID] = n
	for _, c := range n.children {
		switch {
		case c.IsFolder():
			b.indexFolder(c.Node)
		case c.Mode != ModeSubmodule:
			b.index[c.ID] = c.Node
		}
	}
}
