// Package progress keeps count of which commits of main have been answered: a
// commit is, when each path that it changed has its answer on the branch
// status, and so has each commit before it. It is pure, and does no locking.
package progress

import "gitbind.dev/gitbridge/store"

// Tracker is what is outstanding. Its zero value has seen no commit.
type Tracker struct {
	// open are the commits that are not answered, oldest first.
	open []commit
	last Generation
	head store.Hash
}

// Generation numbers the commits of main in the order in which they were seen.
type Generation int64

type commit struct {
	generation  Generation
	head        store.Hash
	outstanding map[string]bool
}

// Advance takes in a commit, with the paths that wait for an answer because of
// it.
func (t *Tracker) Advance(head store.Hash, paths []string) Generation {
	t.last++
	c := commit{generation: t.last, head: head, outstanding: make(map[string]bool, len(paths))}
	for _, p := range paths {
		c.outstanding[p] = true
	}
	t.open = append(t.open, c)
	t.settle()
	return t.last
}

// Done says that a path was answered as it is in a generation, and so for all
// that came before it.
func (t *Tracker) Done(path string, as Generation) {
	for _, c := range t.open {
		if c.generation > as {
			break
		}
		delete(c.outstanding, path)
	}
	t.settle()
}

// Replace has commits that wait for a path wait for others in its place.
func (t *Tracker) Replace(path string, by []string) {
	for _, c := range t.open {
		if !c.outstanding[path] {
			continue
		}
		delete(c.outstanding, path)
		for _, p := range by {
			c.outstanding[p] = true
		}
	}
	t.settle()
}

func (t *Tracker) settle() {
	for len(t.open) > 0 && len(t.open[0].outstanding) == 0 {
		t.head = t.open[0].head
		t.open[0] = commit{}
		t.open = t.open[1:]
	}
}

// Begin forgets all commits: from now on others count.
func (t *Tracker) Begin() { t.open, t.head = nil, "" }

// Retract takes back that commits are answered: only later ones can be, once these have all
// that they wait for.
func (t *Tracker) Retract() {
	t.head = ""
	for i := range t.open {
		t.open[i].head = ""
	}
}

// Answered is the newest commit that is answered, "" if none is.
func (t *Tracker) Answered() store.Hash { return t.head }

// AnsweredWith is what Answered will be when also those paths have their answer
// of which done says so. It is asked as rarely as can be.
func (t *Tracker) AnsweredWith(done func(path string, generation Generation) bool) store.Hash {
	head := t.head
	for _, c := range t.open {
		for path := range c.outstanding {
			if !done(path, c.generation) {
				return head
			}
		}
		head = c.head
	}
	return head
}

// IsAnswered reports whether a generation is answered.
func (t *Tracker) IsAnswered(g Generation) bool {
	return len(t.open) == 0 || t.open[0].generation > g
}
