package branch

import (
	"strings"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/object"
)

// prepare runs edits on a tree, one after the other, and makes commits of
// them: one for each author, in the order in which the authors came. An edit
// joins its author's commit unless a later commit of the batch changes the
// same path: then its author gets another one, so that the history of each
// path is in the order of the edits.
//
// Edits that fail are answered here, and leave no trace. Those that nobody
// waits for any more are not run. The others are returned.
func (c *Client) prepare(base *store.Snapshot, batch []*pending) (Push, []*pending) {
	editor := object.NewEditor(base.Root())
	groups := newGroups()
	var going []*pending
	for _, p := range batch {
		if p.ctx.Err() != nil {
			continue
		}
		mark := editor.Mark()
		if err := p.edit.Apply(store.NewTree(editor)); err != nil {
			editor.Rollback(mark)
			p.answer(nil, err)
			continue
		}
		going = append(going, p)
		changes := editor.Changes(mark)
		if p.cut && base.Head() != "" {
			// It is alone.
			groups.add(p.edit, changes)
			return c.commit(base, groups, true), going
		}
		if len(changes) > 0 {
			groups.add(p.edit, changes)
		}
	}
	return c.commit(base, groups, false), going
}

// commit makes the commits and collects their objects. With cut there is one,
// whatever it changes, and it has no parent.
func (c *Client) commit(base *store.Snapshot, g *groups, cut bool) Push {
	push := Push{Old: base.Head()}
	editor := object.NewEditor(base.Root())
	head := base.Head()
	if cut {
		head = ""
	}
	// Objects of one push are sent once.
	sent := map[object.ID]bool{}
	emit := func(o object.Object) {
		if !sent[o.ID] {
			sent[o.ID] = true
			push.Objects = append(push.Objects, o)
		}
	}
	now := c.options.Now()
	for _, group := range g.list {
		if !group.apply(editor) && !cut {
			continue
		}
		root := editor.Freeze(emit)
		data := object.CommitData{
			Tree:      root.ID,
			Author:    object.Person{Name: group.author.Name, Email: group.author.Email, When: now},
			Committer: object.Person{Name: c.options.Committer.Name, Email: c.options.Committer.Email, When: now},
			Message:   message(group.edits),
		}
		if parent, err := object.ParseID(head); err == nil {
			data.Parents = []object.ID{parent}
		}
		o := data.Encode()
		if c.options.Signer != nil {
			o = data.EncodeSigned(c.options.Signer.Sign)
		}
		emit(o)
		// As others will read it.
		data, _ = object.DecodeCommit(o.Data)
		commit := store.NewCommit(o.ID, data)
		if c.options.Signer != nil {
			commit.SignedBy = c.options.Signer.Key()
		}
		s := store.NewSnapshot(commit, root)
		push.Commits = append(push.Commits, s)
		head = s.Head()
	}
	return push
}

// group is what becomes one commit.
type group struct {
	author  store.Signature
	edits   []store.Edit
	changes map[string]object.Change
	// order keeps the commit the same in every run.
	order []string
}

// apply makes a group's changes, and says whether there are any. Removals come
// first: a file may become a folder.
func (g *group) apply(e *object.Editor) bool {
	changed := false
	for _, removals := range [2]bool{true, false} {
		for _, path := range g.order {
			c := g.changes[path]
			if c.IsNone() || (c.New == nil) != removals {
				continue
			}
			// It was done before, in the editor that the edits had.
			_ = e.Set(path, c.New)
			changed = true
		}
	}
	return changed
}

type groups struct {
	list []*group
	// at and under say which group changed a path, or something below it, last.
	at, under map[string]int
	byAuthor  map[store.Signature]int
}

func newGroups() *groups {
	return &groups{at: map[string]int{}, under: map[string]int{}, byAuthor: map[store.Signature]int{}}
}

func (g *groups) add(e store.Edit, changes []object.Change) {
	i, ok := g.byAuthor[e.Author]
	if !ok || i < g.last(changes) {
		i = len(g.list)
		g.list = append(g.list, &group{author: e.Author, changes: map[string]object.Change{}})
		g.byAuthor[e.Author] = i
	}
	group := g.list[i]
	group.edits = append(group.edits, e)
	for _, c := range changes {
		if before, ok := group.changes[c.Path]; ok {
			c.Old = before.Old
		} else {
			group.order = append(group.order, c.Path)
		}
		group.changes[c.Path] = c
		g.at[c.Path] = i
		for folder := range folders(c.Path) {
			// Another path below it may have changed in a later group.
			g.under[folder] = max(g.under[folder], i)
		}
	}
}

// last is the last group that some of the changes must not come before.
func (g *groups) last(changes []object.Change) int {
	last := -1
	for _, c := range changes {
		last = max(last, lookup(g.at, c.Path), lookup(g.under, c.Path))
		for folder := range folders(c.Path) {
			last = max(last, lookup(g.at, folder))
		}
	}
	return last
}

func lookup(m map[string]int, path string) int {
	if i, ok := m[path]; ok {
		return i
	}
	return -1
}

// folders goes through the folders that a path lies in.
func folders(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			i := strings.LastIndexByte(path, '/')
			if i < 0 {
				return
			}
			path = path[:i]
			if !yield(path) {
				return
			}
		}
	}
}
