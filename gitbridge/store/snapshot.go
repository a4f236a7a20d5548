package store

import (
	"fmt"
	"iter"

	"gitbind.dev/gitbridge/store/internal/object"
)

// MaxFile is the size in bytes up to which the content of files is kept.
// Larger ones are in the tree, and cannot be read or written.
const MaxFile = 1 << 20

// FileMode is what kind of file an entry is.
type FileMode uint32

// The modes that Git knows for what is not a folder.
const (
	Regular    = FileMode(object.ModeRegular)
	Executable = FileMode(object.ModeExecutable)
	Symlink    = FileMode(object.ModeSymlink)
	Submodule  = FileMode(object.ModeSubmodule)
)

func (m FileMode) String() string {
	switch m {
	case Regular:
		return "regular file"
	case Executable:
		return "executable"
	case Symlink:
		return "symbolic link"
	case Submodule:
		return "submodule"
	}
	return fmt.Sprintf("mode %o", uint32(m))
}

// Entry is one file of a tree, without its content. Folders have no entries of
// their own.
type Entry struct {
	// Path has components divided by "/". In a tree that others wrote any
	// component is possible, also ".." and ".git".
	Path string
	Mode FileMode
	// Hash is the blob's name: equal content, equal hash.
	Hash Hash
	// Size is in bytes; 0 for a submodule. Of a file that is too large to keep it
	// may be MaxFile + 1 instead: remotes are asked to leave such files out.
	Size int64
}

func entry(path string, n *object.Node) Entry {
	return Entry{Path: path, Mode: FileMode(n.Mode), Hash: hash(n.ID), Size: n.Size}
}

func hash(id object.ID) Hash {
	if id.IsZero() {
		return ""
	}
	return Hash(id.String())
}

func read(path string, n *object.Node) ([]byte, error) {
	if n == nil || n.IsFolder() {
		return nil, fmt.Errorf("read %s: %w", path, ErrNotExist)
	}
	data, ok := n.Data()
	switch {
	case ok:
		return data, nil
	case FileMode(n.Mode) == Submodule:
		return nil, fmt.Errorf("read %s: %w: it is a submodule", path, ErrNotExist)
	}
	return nil, fmt.Errorf("read %s: %w", path, ErrTooLarge)
}

// Snapshot is an immutable tree at a commit. A nil *Snapshot behaves as an
// empty tree without a commit. It may be read by many goroutines, and kept as
// long as it is of use: snapshots share what is equal in them.
type Snapshot struct {
	commit Commit
	root   *object.Node
}

// NewSnapshot is for implementations.
func NewSnapshot(c Commit, root *object.Node) *Snapshot {
	return &Snapshot{commit: c, root: root}
}

// Root is for implementations. It is nil for an empty tree without a commit.
func (s *Snapshot) Root() *object.Node {
	if s == nil {
		return nil
	}
	return s.root
}

// Head is the commit's hash, or "" for no commit.
func (s *Snapshot) Head() Hash {
	if s == nil {
		return ""
	}
	return s.commit.Hash
}

// Commit is the commit, with its message.
func (s *Snapshot) Commit() Commit {
	if s == nil {
		return Commit{}
	}
	return s.commit
}

// Files is how many files the tree holds.
func (s *Snapshot) Files() int {
	if n := s.Root(); n != nil {
		return n.Files
	}
	return 0
}

// Read returns the content of a file; it must not be modified. The error is
// ErrNotExist, or ErrTooLarge. Of a symbolic link it is the target.
func (s *Snapshot) Read(path string) ([]byte, error) {
	return read(path, s.find(path))
}

// Entry returns the file at a path.
func (s *Snapshot) Entry(path string) (Entry, bool) {
	n := s.find(path)
	if n == nil || n.IsFolder() {
		return Entry{}, false
	}
	return entry(path, n), true
}

func (s *Snapshot) find(path string) *object.Node { return s.Root().Find(path) }

// List goes through all files below a folder, sorted by path; "" is the root.
// A folder that does not exist has no files.
func (s *Snapshot) List(prefix string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for f := range s.folder(prefix).Walk(below(prefix)) {
			if !yield(entry(f.Path, f.Node)) {
				return
			}
		}
	}
}

func (s *Snapshot) folder(path string) *object.Node {
	if n := s.find(path); n != nil && n.IsFolder() {
		return n
	}
	return nil
}

// below is what the paths in a folder begin with.
func below(folder string) string {
	if folder == "" {
		return ""
	}
	return folder + "/"
}

// Change is a file that differs between two trees. Old is nil for an added
// file, New for a removed one.
type Change struct {
	Path     string
	Old, New *Entry
}

// Diff goes through the files below a folder that differ between two trees,
// sorted by path. It costs what changed, not what is there.
func Diff(old, new *Snapshot, prefix string) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for c := range object.Diff(old.folder(prefix), new.folder(prefix), below(prefix)) {
			if !yield(change(c)) {
				return
			}
		}
	}
}

func change(c object.Change) Change {
	out := Change{Path: c.Path}
	if c.Old != nil {
		e := entry(c.Path, c.Old)
		out.Old = &e
	}
	if c.New != nil {
		e := entry(c.Path, c.New)
		out.New = &e
	}
	return out
}
