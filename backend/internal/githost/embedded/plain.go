package embedded

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// Plain objects are those that the agents make. What is plain is a part of what git's own
// checks (receive.fsckObjects) let in, small enough to be sure of; whatever else there is
// goes to git itself.

// plainPerson is an author or a committer as git writes one.
var plainPerson = regexp.MustCompile(`^[^<>\n\x00]+ <[^<>\n\x00]*> (0|[1-9][0-9]{0,9}) [+-][0-9]{4}$`)

// plainCommit tells whether a commit has its usual fields and no others.
func plainCommit(c commit, data []byte) bool {
	if !plainPerson.MatchString(c.Author) || !plainPerson.MatchString(c.Committer) || bytes.IndexByte(data, 0) >= 0 {
		return false
	}
	var b strings.Builder
	b.WriteString("tree " + c.Tree.String() + "\n")
	for _, p := range c.Parents {
		b.WriteString("parent " + p.String() + "\n")
	}
	b.WriteString("author " + c.Author + "\ncommitter " + c.Committer + "\n\n" + c.Message)
	return b.String() == string(data)
}

// plainName is a file's name that means the same on every file system.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_=+@,-][A-Za-z0-9_=+@,.-]{0,254}$`)

// plainFile tells whether a mode is that of a file, and of no link.
func plainFile(mode string) bool { return mode == "100644" || mode == "100755" }

// plainTree tells whether a folder has files and folders with plain names, in git's
// order, none of them twice, and no folder is empty: git knows the empty folder without
// having it.
func plainTree(entries []treeEntry) bool {
	names := make(map[string]bool, len(entries))
	before := ""
	for _, e := range entries {
		at := e.Name
		if e.Mode == modeDir {
			at += "/"
		} else if !plainFile(e.Mode) {
			return false
		}
		if !plainName.MatchString(e.Name) || names[e.Name] || at <= before || e.Hash.IsZero() || e.Hash == emptyTree {
			return false
		}
		names[e.Name] = true
		before = at
	}
	return true
}

// plain tells whether everything that a push brings is plain.
func (c *check) plain() bool {
	for name, o := range c.pack.Objects {
		switch o.Type {
		case plumbing.BlobObject:
		case plumbing.CommitObject:
			parsed, err := c.commit(name)
			if err != nil || !plainCommit(parsed, o.Data) {
				return false
			}
		case plumbing.TreeObject:
			entries, err := c.takeApart(o)
			if err != nil || !plainTree(entries) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
