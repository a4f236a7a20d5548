package embedded

import (
	"github.com/go-git/go-git/v5/plumbing"
)

// maxCompared bounds the entries of folders that are compared to see that a push is
// whole; a push with more goes to git.
const maxCompared = 200_000

// whole finds out whether a head is there with all that belongs to it once a push is
// taken: each file and folder of each new commit is in the push, or is in the same place
// of the commit before it. Git allows more, such as a file that came back from an older
// commit, and has to look through the history for it.
type whole struct {
	check *check
	// compared are the pairs of folders that were looked at.
	compared map[[2]plumbing.Hash]bool
	left     int
}

// whole tells whether an update of a branch is whole. It is false where that would
// take git to tell.
func (c *check) whole(cmd command) (bool, error) {
	w := whole{check: c, compared: map[[2]plumbing.Hash]bool{}, left: maxCompared}
	for name, o := range c.pack.Objects {
		if o.Type != plumbing.CommitObject {
			continue
		}
		if ok, err := w.commit(cmd, name); !ok || err != nil {
			return false, err
		}
	}
	_, fresh := c.pack.Objects[cmd.New]
	return fresh, nil
}

// commit tells whether a commit stands on the branch's head or on another commit of the
// push, and has its files.
func (w *whole) commit(cmd command, name plumbing.Hash) (bool, error) {
	this, err := w.check.commit(name)
	if err != nil || len(this.Parents) == 0 {
		return false, err
	}
	for _, p := range this.Parents {
		if o, ok := w.check.pack.Objects[p]; p != cmd.Old && (!ok || o.Type != plumbing.CommitObject) {
			return false, nil
		}
	}
	before, err := w.check.commit(this.Parents[0])
	if err != nil {
		return false, err
	}
	return w.folder(this.Tree, before.Tree)
}

// folder tells whether a folder is whole, of which an earlier version is.
func (w *whole) folder(name, before plumbing.Hash) (bool, error) {
	pair := [2]plumbing.Hash{name, before}
	if name == before || w.compared[pair] {
		return true, nil
	}
	w.compared[pair] = true
	o, ok := w.check.pack.Objects[name]
	if !ok || o.Type != plumbing.TreeObject {
		return false, nil
	}
	entries, err := parseTree(o.Data)
	if err != nil {
		return false, err
	}
	known, ok, err := w.known(before)
	if !ok || err != nil {
		return false, err
	}
	if w.left -= len(entries) + len(known); w.left < 0 {
		return false, nil
	}
	for _, e := range entries {
		if ok, err := w.entry(e, known[e.Name]); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// known are the entries of a folder that the repository has, or that the push has. ok is
// false for one that is too large.
func (w *whole) known(folder plumbing.Hash) (_ map[string]treeEntry, ok bool, err error) {
	o, err := w.check.object(folder, plumbing.TreeObject)
	if err != nil || len(o.Data) > maxPlain {
		return nil, false, err
	}
	entries, err := parseTree(o.Data)
	if err != nil {
		return nil, false, err
	}
	known := make(map[string]treeEntry, len(entries))
	for _, e := range entries {
		known[e.Name] = e
	}
	return known, true, nil
}

func (w *whole) entry(e, before treeEntry) (bool, error) {
	if e.Mode != modeDir {
		if e.Hash == before.Hash && before.Mode != modeDir {
			return true, nil
		}
		o, ok := w.check.pack.Objects[e.Hash]
		return ok && o.Type == plumbing.BlobObject, nil
	}
	if before.Mode != modeDir {
		return w.folder(e.Hash, emptyTree)
	}
	return w.folder(e.Hash, before.Hash)
}
