// Package limits says how much of a repository is read, by the agents and by the
// embedded host alike: what the host lets in, the agents can read. It measures trees
// by their paths, as a few small objects can name very many, and does no I/O.
package limits

import "fmt"

const (
	// Paths is how many files and folders a tree may name: a hundred thousand
	// claims, and as much again.
	Paths = 250_000
	// PathBytes is how long all paths of a tree's files and folders may be together.
	PathBytes = 32 << 20
	// Depth is how many components a path may have.
	Depth = 64
	// Message is how long the message of a commit may be, in bytes.
	Message = 1 << 20
	// CommitHead is how long all may be that stands before it: parents, names, a
	// signature.
	CommitHead = 1 << 20
	// Commit is how large a commit may be.
	Commit = Message + CommitHead
	// Commits is how many bytes of commits are read at once, for the history between
	// two looks at a branch.
	Commits = 64 << 20
)

// Tree is the extent of a folder with all that is below it.
type Tree struct {
	// Paths are its files and folders. A folder that is there under two names counts
	// twice, and so does all that is in it.
	Paths int64
	// Bytes is how long the paths of these are together.
	Bytes int64
	// Depth is how many components the longest of them has.
	Depth int
}

// AddName adds a file, or a folder without what is in it, by the length of its name.
func (t *Tree) AddName(length int) {
	t.Paths++
	t.Bytes += int64(length)
	t.Depth = max(t.Depth, 1)
}

// AddBelow adds what is in a folder whose name was added.
func (t *Tree) AddBelow(length int, folder Tree) {
	t.Paths += folder.Paths
	t.Bytes += folder.Bytes + folder.Paths*int64(length+1)
	t.Depth = max(t.Depth, 1+folder.Depth)
}

// Exceeded says in words what is too much, "" when nothing is. It is to be asked after
// each addition, so that no sum overflows.
func (t Tree) Exceeded() string {
	switch {
	case t.Paths > Paths:
		return fmt.Sprintf("more than %d files and folders", Paths)
	case t.Bytes > PathBytes:
		return fmt.Sprintf("paths of more than %d MiB in all", PathBytes>>20)
	case t.Depth > Depth:
		return fmt.Sprintf("folders more than %d deep", Depth)
	}
	return ""
}

// Shrinks reports whether a tree has less than another one in all that is limited. It
// may take the place of that one even while it has too much.
func (t Tree) Shrinks(from Tree) bool {
	return t.Paths <= from.Paths && t.Bytes <= from.Bytes && t.Depth <= from.Depth
}
