package repository

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// maxMoves is how many moves are kept. Where more wait for a person, what is kept for a
// binding is that claims of it have moved: one for each, however many bindings there are.
const maxMoves = 100

// movedTo is where a claim's file went, if it is known to have moved: to a path
// where it was found when it went, or to one that has the very same content (and
// with it the name of this claim).
func (r *Removals) movedTo(main *store.Snapshot, path string, blob store.Hash) (string, bool) {
	for _, m := range r.checkpoints.get().Moves {
		if m.isOf(path) && m.isThere(main) {
			return m.To, true
		}
	}
	if blob == "" {
		return "", false
	}
	return r.contents.at(main, blob)
}

// contents say where on a head of main a content is.
type contents struct {
	head  store.Hash
	paths map[store.Hash]string
}

func (c *contents) at(main *store.Snapshot, blob store.Hash) (string, bool) {
	if c.head != main.Head() || c.paths == nil {
		c.head, c.paths = main.Head(), map[store.Hash]string{}
		for e := range main.List("") {
			c.paths[e.Hash] = e.Path
		}
	}
	path, ok := c.paths[blob]
	return path, ok
}

// movesBetween finds the claims' files that moved from one head of main to another, by
// these commits.
func movesBetween(old, new *store.Snapshot, changes []store.Change, commits []guard.Commit) []Move {
	// What this agent removed was deleted in this cluster.
	own, ordered := guard.RemovedBy(commits, nil), guard.Ordered(commits, nil)
	var gone sought
	var added, others []store.Entry
	for _, c := range changes {
		key, err := contract.ParsePath(c.Path)
		switch {
		case c.New == nil && err == nil:
			if _, mine := own[c.Path]; !mine {
				gone.add(key, old)
			}
		case c.Old == nil && err != nil:
			others = append(others, *c.New)
		case c.Old == nil && !ordered[c.Path]:
			added = append(added, *c.New)
		}
	}
	for _, e := range append(added, others...) {
		if gone.open == 0 {
			break
		}
		if data, err := new.Read(e.Path); err == nil {
			gone.find(contract.File{Path: e.Path, Data: data})
		}
	}
	return gone.moves()
}

// sought are claims whose files are gone, and where they may be. Each file is read once,
// however many are sought.
type sought struct {
	all []*soughtClaim
	// byName are they by namespace and name, and byBinding those that are not found.
	byName    map[[2]string][]*soughtClaim
	byBinding map[string][]*soughtClaim
	// open is how many are not found.
	open int
}

type soughtClaim struct {
	guard.Removed
	// kind is "" where the file could not be read: then any is taken.
	kind, to string
}

// add is for a file that main had.
func (s *sought) add(key contract.Key, main *store.Snapshot) {
	c := &soughtClaim{}
	if data, err := main.Read(key.Path()); err == nil {
		if was := decodeAny(contract.File{Path: key.Path(), Data: data}); was != nil {
			c.kind = was.Kind
		}
	}
	c.Removed = removedClaim(key, c.kind, decodeAny)
	if s.all == nil {
		s.byName, s.byBinding = map[[2]string][]*soughtClaim{}, map[string][]*soughtClaim{}
	}
	name := [2]string{key.Namespace, key.Name}
	s.all, s.byName[name] = append(s.all, c), append(s.byName[name], c)
	s.byBinding[key.Binding] = append(s.byBinding[key.Binding], c)
	s.open++
}

// find is for a file that came: of those that it may hold and that are not found, it is
// where they are.
func (s *sought) find(f contract.File) {
	found := func(c *soughtClaim) {
		if c.to == "" {
			c.to = f.Path
			s.open--
		}
	}
	if key, err := contract.ParsePath(f.Path); err == nil && len(s.byBinding[key.Binding]) > 0 {
		if claim := decodeAny(f); claim != nil {
			s.byBinding[key.Binding] = slices.DeleteFunc(s.byBinding[key.Binding], func(c *soughtClaim) bool {
				is := c.kind == "" || c.kind == claim.Kind
				if is {
					found(c)
				}
				return is
			})
		}
	}
	if s.open == 0 {
		return
	}
	if namespace, name, ok := contract.NameIn(f); ok {
		for _, c := range s.byName[[2]string{namespace, name}] {
			if c.to == "" && c.IsIn(f) {
				found(c)
			}
		}
	}
}

func (s *sought) moves() (moves []Move) {
	for _, c := range s.all {
		if c.to != "" {
			moves = append(moves, Move{c.Key.Path(), c.to})
		}
	}
	return moves
}

func decodeAny(f contract.File) *contract.Claim {
	c, err := contract.Decode(f, "")
	if err != nil {
		return nil
	}
	return c
}

// removedClaim is one by which a moved file is recognised, with "" as one of any kind.
func removedClaim(key contract.Key, kind string, read func(contract.File) *contract.Claim) guard.Removed {
	return guard.Removed{Key: key, Read: func(f contract.File) *contract.Claim {
		if claim := read(f); claim != nil && (kind == "" || claim.Kind == kind) {
			return claim
		}
		return nil
	}}
}

// noteMoved saves which of the claims' files moved while no process looked. It is not known
// while main is held.
func (r *Removals) noteMoved(ctx context.Context, binding string, claims Claims) (known bool, err error) {
	return UntilCurrent(ctx, func() (bool, error) {
		view, err := r.view(ctx)
		if err != nil || view.Replaced != "" {
			return false, err
		}
		moves, err := r.findMoves(ctx, view.Main, view.Continues, binding, claims)
		if err == nil {
			err = r.noteFound(ctx, view, moves)
		}
		if err != nil {
			return false, fmt.Errorf("find moves in %s: %w", binding, err)
		}
		return true, nil
	})
}

// noteFound saves moves that were found in a view of main. The error is ErrOutdated where main has
// moved on: a file of the view may have moved since.
func (r *Removals) noteFound(ctx context.Context, view View, moves []Move) error {
	if err := r.lineage.accepting.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.lineage.accepting.Release(1)
	if view.isOutdated() {
		return ErrOutdated
	}
	return r.noteMoves(ctx, nil, view.Main, moves)
}

// noteStep saves what moved with a step of main, which these commits made. Old is nil where
// this process has not seen what it had before: then it is found by the objects, as far as there
// are any.
func (r *Removals) noteStep(ctx context.Context, old, main *store.Snapshot, changes []store.Change, passed []store.Commit) error {
	if old != nil {
		return r.noteMoves(ctx, old, main, movesBetween(old, main, changes, r.lineage.main.Commits(passed)))
	}
	var moves []Move
	var err error
	lineage := r.lineage.at(main.Head(), passed)
	r.tracked.Range(func(binding, claims any) bool {
		var found []Move
		found, err = r.findMoves(ctx, main, lineage.Continues, binding.(string), claims.(Claims))
		if err != nil {
			err = fmt.Errorf("find moves in %s: %w", binding, err)
		}
		moves = append(moves, found...)
		return err == nil
	})
	if err != nil {
		return err
	}
	return r.noteMoves(ctx, nil, main, moves)
}

// findMoves finds the claims' files that moved while no process looked. Continues reports
// whether main has a commit; the error may be ErrOutdated, where main has moved on.
func (r *Removals) findMoves(ctx context.Context, main *store.Snapshot, continues func(context.Context, store.Hash) (bool, error), binding string, claims Claims) ([]Move, error) {
	objects := map[contract.Key]bool{}
	var agreed []Object
	gone, err := claims.Objects(ctx, func(key contract.Key, terminating bool) bool {
		objects[key] = true
		_, ok := main.Entry(key.Path())
		return !ok && !terminating
	})
	if err != nil {
		return nil, err
	}
	// What main never had is not asked for: the host would send all of it.
	for _, o := range gone {
		had, err := continues(ctx, o.Commit)
		if err != nil {
			return nil, err
		}
		if had {
			agreed = append(agreed, o)
		}
	}
	since, err := r.log(ctx, main, agreed)
	if err != nil {
		return nil, err
	}
	own, ordered := guard.RemovedBy(since.commits, nil), guard.Ordered(since.commits, nil)
	var removed []guard.Removed
	for _, o := range agreed {
		i, mine := own[o.Key.Path()]
		// What this agent removed before they agreed was another life.
		mine = mine && i < since.index[o.Commit]
		if !mine && !o.Removed && o.Kind != "" {
			removed = append(removed, removedClaim(o.Key, o.Kind, claims.Read))
		}
	}
	if len(removed) == 0 {
		return nil, nil
	}
	to := map[string]string{}
	for e := range main.List(contract.BindingPath(binding)) {
		if key, err := contract.ParsePath(e.Path); err == nil && (objects[key] || ordered[e.Path]) {
			continue
		}
		data, err := main.Read(e.Path)
		if err != nil {
			continue
		}
		for _, claim := range removed {
			file, from := contract.File{Path: e.Path, Data: data}, claim.Key.Path()
			if claim.IsIn(file) || to[from] == "" && claim.MayBeIn(file) {
				to[from] = e.Path
			}
		}
	}
	var moves []Move
	for _, from := range slices.Sorted(maps.Keys(to)) {
		moves = append(moves, Move{from, to[from]})
	}
	return moves, nil
}

// logged are commits of main, newest first.
type logged struct {
	commits []guard.Commit
	// index is where a commit is among them; that after which they begin is the last.
	index map[store.Hash]int
}

// log reads the commits since the oldest one at which an object agreed with its
// file. History that is too long to be read tells nothing.
func (r *Removals) log(ctx context.Context, main *store.Snapshot, objects []Object) (logged, error) {
	var all []store.Commit
	index, asked := map[store.Hash]int{}, map[store.Hash]bool{"": true}
	for _, o := range objects {
		if _, known := index[o.Commit]; known || asked[o.Commit] {
			continue
		}
		asked[o.Commit] = true
		commits, descends, err := r.lineage.main.Log(ctx, o.Commit, main.Head())
		switch {
		case store.LastingLimit(err) != nil:
		case err != nil:
			return logged{}, err
		case descends && len(commits) > len(all):
			all = commits
			index = map[store.Hash]int{o.Commit: len(all)}
			for i, c := range all {
				index[c.Hash] = i
			}
		}
	}
	return logged{r.lineage.main.Commits(all), index}, nil
}

// noteMoves saves moves before they count. A file that is back moves no more. Old is what
// main had before, nil where that is not known.
func (r *Removals) noteMoves(ctx context.Context, old, main *store.Snapshot, moves []Move) error {
	known := r.checkpoints.get().Moves
	over, waited := map[Move]bool{}, r.mayWait(ctx, old)
	for _, m := range known {
		_, back := main.Entry(m.From)
		over[m] = back || m.isOfAll() && old != nil && !waited(m)
	}
	isOver := func(m Move) bool { return over[m] }
	kept := slices.DeleteFunc(slices.Clone(known), isOver)
	moves = slices.DeleteFunc(slices.Concat(moves, movedOn(known, moves)), func(m Move) bool {
		return slices.ContainsFunc(kept, func(k Move) bool { return k == m || k.isOfAll() && k.isOf(m.From) })
	})
	if len(kept)+len(moves) > maxMoves {
		mayWait := r.mayWait(ctx, main)
		for _, m := range kept {
			over[m] = !m.isThere(main) || !mayWait(m)
		}
	}
	change := func(c *Checkpoint) {
		c.Moves = atMost(slices.Concat(slices.DeleteFunc(slices.Clone(c.Moves), isOver), moves))
	}
	switch {
	case len(moves) > 0:
		return r.checkpoints.decide(ctx, change)
	case slices.ContainsFunc(known, isOver):
		r.checkpoints.note(change)
	}
	return nil
}

// mayWait reports of a move whether there may be an object that it keeps from being deleted: one
// that lives, and has no file on a head of main.
func (r *Removals) mayWait(ctx context.Context, main *store.Snapshot) func(Move) bool {
	waiting := map[string][]string{}
	return func(m Move) bool {
		binding := m.binding()
		claims, ok := r.tracked.Load(binding)
		if !ok {
			return true
		}
		if _, ok := waiting[binding]; !ok {
			waiting[binding] = []string{}
			if _, err := claims.(Claims).Objects(ctx, func(key contract.Key, terminating bool) bool {
				if _, there := main.Entry(key.Path()); !there && !terminating {
					waiting[binding] = append(waiting[binding], key.Path())
				}
				return false
			}); err != nil {
				delete(waiting, binding)
				return true
			}
		}
		return slices.ContainsFunc(waiting[binding], m.isOf)
	}
}

// atMost are moves as they are kept. Where they are too many, one of all claims of a
// binding takes the place of those of the binding that has the most.
func atMost(moves []Move) []Move {
	for len(moves) > maxMoves {
		count := map[string]int{}
		for _, m := range moves {
			count[m.binding()]++
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[a], count[b]) })
		if count[most] == 1 {
			break // there are more bindings than that
		}
		moves = slices.DeleteFunc(moves, func(m Move) bool { return m.binding() == most })
		folder := contract.ClaimsPath(most) + "/"
		moves = append(moves, Move{folder, folder})
	}
	return moves
}

// movedOn are known moves to where their files went since.
func movedOn(known, moves []Move) (on []Move) {
	for _, m := range known {
		to := guard.Destinations([]string{m.To}, func(path string) (to []string) {
			for _, later := range moves {
				if later.From == path && later.To != m.From {
					to = append(to, later.To)
				}
			}
			return to
		})
		for _, path := range to[1:] {
			if move := (Move{m.From, path}); !slices.Contains(moves, move) {
				on = append(on, move)
			}
		}
	}
	return on
}
