package embedded

import (
	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/limits"
)

// maxCompared bounds the entries of folders that are compared to see that a push is
// connected; a push with more goes to git.
const maxCompared = 200_000

// connectivity finds out whether a head is there with all that belongs to it once a push is
// taken: each file and folder of each new commit is in the push, or is in the same place
// of the commit before it. Git allows more, such as a file that came back from an older
// commit, and has to look through the history for it. Git also looks into what else came,
// which the head does not need; so a push with such objects is left to it.
type connectivity struct {
	check *check
	// needed are the objects of the push that the head was found to need.
	needed map[plumbing.Hash]bool
	// compared are the pairs of folders that were looked at.
	compared map[[2]plumbing.Hash]bool
	left     int
}

// isConnected tells whether an update of a branch has all that belongs to it. It is false
// where that would take git to tell.
func (c *check) isConnected(cmd command) (bool, error) {
	w := connectivity{check: c, needed: map[plumbing.Hash]bool{}, compared: map[[2]plumbing.Hash]bool{}, left: maxCompared}
	if _, ok := w.brought(cmd.New, plumbing.CommitObject); !ok {
		return false, nil
	}
	for name, o := range c.pack.Objects {
		if o.Type != plumbing.CommitObject {
			continue
		}
		if ok, err := w.commit(cmd, name); !ok || err != nil {
			return false, err
		}
	}
	return len(w.needed) == len(c.pack.Objects), nil
}

// brought gives an object that is needed, if the push has it.
func (w *connectivity) brought(name plumbing.Hash, want plumbing.ObjectType) (object, bool) {
	o, ok := w.check.pack.Objects[name]
	if ok {
		w.needed[name] = true
	}
	return o, ok && o.Type == want
}

// commit tells whether a commit stands on the branch's head or on another commit of the
// push, has its files, and has no more than a head may have.
func (w *connectivity) commit(cmd command, name plumbing.Hash) (bool, error) {
	this, err := w.check.commit(name)
	if err != nil || len(this.Parents) == 0 {
		return false, err
	}
	for _, p := range this.Parents {
		if _, ok := w.brought(p, plumbing.CommitObject); !ok && p != cmd.Old {
			return false, nil
		}
	}
	if _, err := w.check.measure(this.Tree, limits.Tree{}); err != nil {
		return false, err
	}
	before, err := w.check.commit(this.Parents[0])
	if err != nil {
		return false, err
	}
	return w.folder(this.Tree, before.Tree)
}

// folder tells whether a folder is there with all in it, of which an earlier version is.
func (w *connectivity) folder(name, before plumbing.Hash) (bool, error) {
	o, ok := w.brought(name, plumbing.TreeObject)
	pair := [2]plumbing.Hash{name, before}
	if name == before || w.compared[pair] {
		return true, nil
	}
	w.compared[pair] = true
	if !ok {
		return false, nil
	}
	entries, err := w.check.takeApart(o)
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
func (w *connectivity) known(folder plumbing.Hash) (_ map[string]treeEntry, ok bool, err error) {
	o, err := w.check.object(folder, plumbing.TreeObject)
	if err != nil || len(o.Data) > maxPlain {
		return nil, false, err
	}
	entries, err := w.check.takeApart(o)
	if err != nil {
		return nil, false, err
	}
	known := make(map[string]treeEntry, len(entries))
	for _, e := range entries {
		known[e.Name] = e
	}
	return known, true, nil
}

func (w *connectivity) entry(e, before treeEntry) (bool, error) {
	if e.Mode != modeDir {
		_, ok := w.brought(e.Hash, plumbing.BlobObject)
		// Of a submodule nothing is there.
		return ok || e.Hash == before.Hash && plainFile(before.Mode), nil
	}
	if before.Mode != modeDir {
		return w.folder(e.Hash, emptyTree)
	}
	return w.folder(e.Hash, before.Hash)
}
