package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/limits"
)

// errObject says that an object is not in the one form that git itself writes.
// The rules read objects strictly: what could be read in two ways is refused.
var errObject = errors.New("malformed object")

// commit is what the rules need of a commit.
type commit struct {
	Tree              plumbing.Hash
	Parents           []plumbing.Hash
	Author, Committer string
	// Encoding is that of the rest; "" is UTF-8.
	Encoding string
	Message  string
}

func parseCommit(data []byte) (commit, error) {
	head, message, ok := strings.Cut(string(data), "\n\n")
	if !ok {
		// A commit without a message ends after its headers.
		head = strings.TrimSuffix(string(data), "\n")
	}
	// A line costs many times its bytes to look at.
	if len(head) > limits.CommitHead {
		return commit{}, fmt.Errorf("%w: commit with %d bytes of headers, at most %d", errObject, len(head), limits.CommitHead)
	}
	lines := strings.Split(head, "\n")
	c := commit{Message: message}
	next := func(key string) (string, bool) {
		if len(lines) == 0 {
			return "", false
		}
		value, ok := strings.CutPrefix(lines[0], key+" ")
		if ok {
			lines = lines[1:]
		}
		return value, ok
	}
	hash := func(key string) (h plumbing.Hash, ok bool, err error) {
		value, ok := next(key)
		if !ok {
			return h, false, nil
		}
		if h, err = parseHash(value); err != nil {
			return h, false, fmt.Errorf("%w: commit with %s %q", errObject, key, abbreviate(value))
		}
		return h, true, nil
	}

	tree, ok, err := hash("tree")
	if err != nil || !ok {
		return c, errors.Join(err, fmt.Errorf("%w: commit without a tree", errObject))
	}
	c.Tree = tree
	for {
		parent, ok, err := hash("parent")
		if err != nil {
			return c, err
		}
		if !ok {
			break
		}
		c.Parents = append(c.Parents, parent)
	}
	if c.Author, ok = next("author"); !ok {
		return c, fmt.Errorf("%w: commit without an author", errObject)
	}
	if c.Committer, ok = next("committer"); !ok {
		return c, fmt.Errorf("%w: commit without a committer", errObject)
	}
	for _, line := range lines {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "encoding":
			if c.Encoding != "" {
				return c, fmt.Errorf("%w: commit with a second encoding", errObject)
			}
			c.Encoding = value
		case "tree", "parent", "author", "committer":
			return c, fmt.Errorf("%w: commit with a second %s", errObject, key)
		}
	}
	return c, nil
}

// modeDir is the mode of a folder in a tree.
const modeDir = "40000"

// treeEntry is one name in a tree.
type treeEntry struct {
	Mode string
	Name string
	Hash plumbing.Hash
}

func parseTree(data []byte) ([]treeEntry, error) {
	var entries []treeEntry
	for len(data) > 0 {
		nul := bytes.IndexByte(data, 0)
		if nul < 0 || len(data) < nul+1+20 {
			return nil, fmt.Errorf("%w: tree ends within an entry", errObject)
		}
		mode, name, ok := strings.Cut(string(data[:nul]), " ")
		if !ok || mode == "" || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%w: tree entry %q", errObject, abbreviate(string(data[:nul])))
		}
		e := treeEntry{Mode: mode, Name: name}
		copy(e.Hash[:], data[nul+1:])
		entries = append(entries, e)
		data = data[nul+1+20:]
	}
	return entries, nil
}

// difference is a name that two folders do not share; before or after is zero where the
// name is not.
type difference struct {
	name          string
	before, after treeEntry
}

// differences compares two folders: first what after has, then what it lacks.
func differences(before, after []treeEntry) []difference {
	left := make(map[string]treeEntry, len(before))
	for _, e := range before {
		left[e.Name] = e
	}
	var all []difference
	for _, e := range after {
		if left[e.Name] != e {
			all = append(all, difference{e.Name, left[e.Name], e})
		}
		delete(left, e.Name)
	}
	for _, e := range before {
		if _, gone := left[e.Name]; gone {
			all = append(all, difference{name: e.Name, before: e})
		}
	}
	return all
}

// folders gives the folders of a name that is a folder on both sides, the empty one where
// it is not there. ok is false where it is something else on either.
func (d difference) folders() (before, after plumbing.Hash, ok bool) {
	before, wasFolder := d.before.folder()
	after, isFolder := d.after.folder()
	return before, after, wasFolder && isFolder
}

func (e treeEntry) folder() (plumbing.Hash, bool) {
	if e == (treeEntry{}) {
		return emptyTree, true
	}
	return e.Hash, e.Mode == modeDir
}
