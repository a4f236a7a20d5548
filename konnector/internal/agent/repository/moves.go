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

// maxMoves is how many moves are kept. More of them at once are held as many
// removals, whether they are moves or not.
const maxMoves = 100

// movedTo is where a claim's file went, if it is known to have moved: to a path
// where it was found when it went, or to one that has the very same content (and
// with it the name of this claim).
func (r *Removals) movedTo(main *store.Snapshot, path string, blob store.Hash) (string, bool) {
	for _, m := range r.checkpoints.get().Moves {
		if _, there := main.Entry(m.To); there && m.From == path {
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
	ordered := guard.Ordered(commits, nil)
	var removed, added, others []store.Entry
	for _, c := range changes {
		_, err := contract.ParsePath(cmp.Or(c.New, c.Old).Path)
		switch {
		case c.New == nil && err == nil:
			removed = append(removed, *c.Old)
		case c.Old == nil && err != nil:
			others = append(others, *c.New)
		case c.Old == nil && !ordered[c.New.Path]:
			added = append(added, *c.New)
		}
	}
	added = append(added, others...)
	if len(removed) == 0 || len(added) == 0 {
		return nil
	}
	// What this agent removed was deleted in this cluster.
	own := guard.RemovedBy(commits, nil)
	var moves []Move
	for _, from := range removed[:min(len(removed), maxMoves)] {
		key, err := contract.ParsePath(from.Path)
		if _, mine := own[from.Path]; err != nil || mine {
			continue
		}
		data, err := old.Read(from.Path)
		if err != nil {
			continue
		}
		was := decodeAny(contract.File{Path: from.Path, Data: data})
		if was == nil {
			continue
		}
		claim := removedClaim(key, was.Kind, decodeAny)
		for _, to := range added[:min(len(added), maxMoves)] {
			data, err := new.Read(to.Path)
			if err == nil && claim.MayBeIn(contract.File{Path: to.Path, Data: data}) {
				moves = append(moves, Move{from.Path, to.Path})
				break
			}
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

// removedClaim is one by which a moved file is recognised.
func removedClaim(key contract.Key, kind string, read func(contract.File) *contract.Claim) guard.Removed {
	return guard.Removed{Key: key, Read: func(f contract.File) *contract.Claim {
		if claim := read(f); claim != nil && claim.Kind == kind {
			return claim
		}
		return nil
	}}
}

// noteMoved saves which of the claims' files moved while no process looked.
func (r *Removals) noteMoved(ctx context.Context, binding string, claims Claims) error {
	_, err := UntilCurrent(ctx, func() (none struct{}, err error) {
		view, err := r.view(ctx)
		if err != nil || view.Replaced != "" {
			return none, err
		}
		moves, err := r.findMoves(ctx, view, binding, claims)
		if err == nil {
			err = r.checkpoints.noteMoves(ctx, view.Main, moves)
		}
		if err != nil {
			return none, fmt.Errorf("find moves in %s: %w", binding, err)
		}
		return none, nil
	})
	return err
}

// findMoves finds the claims' files that moved while no process looked. The error is
// ErrOutdated where main has moved on since it was viewed.
func (r *Removals) findMoves(ctx context.Context, view View, binding string, claims Claims) ([]Move, error) {
	main := view.Main
	objects := map[contract.Key]bool{}
	gone, err := claims.Objects(ctx, func(key contract.Key, terminating bool) bool {
		objects[key] = true
		_, ok := main.Entry(key.Path())
		return !ok && !terminating
	})
	if err != nil {
		return nil, err
	}
	since, err := r.log(ctx, main, gone)
	if err != nil {
		return nil, err
	}
	own, ordered := guard.RemovedBy(since.commits, nil), guard.Ordered(since.commits, nil)
	var removed []guard.Removed
	for _, o := range gone {
		i, mine := own[o.Key.Path()]
		// What this agent removed before they agreed was another life.
		mine = mine && i < since.index[o.Commit]
		if had, err := view.Continues(ctx, o.Commit); err != nil {
			return nil, err
		} else if had && !mine && !o.Removed && o.Claim != nil {
			removed = append(removed, removedClaim(o.Key, o.Claim.Kind, claims.Read))
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
	return moves[:min(len(moves), maxMoves)], nil
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

// noteMoves saves moves before they count. A file that is back, or gone from where it
// went to, moves no more, unless it moved on.
func (c *Checkpoints) noteMoves(ctx context.Context, main *store.Snapshot, moves []Move) error {
	known := c.get().Moves
	moves = slices.Concat(moves, movedOn(known, moves))
	moves = slices.DeleteFunc(moves, func(m Move) bool { return slices.Contains(known, m) })
	if len(moves) == 0 {
		return nil
	}
	return c.decide(ctx, func(c *Checkpoint) {
		kept := slices.DeleteFunc(slices.Clone(c.Moves), func(move Move) bool {
			_, back := main.Entry(move.From)
			_, there := main.Entry(move.To)
			return back || !there
		})
		all := slices.Concat(kept, moves)
		c.Moves = all[max(0, len(all)-maxMoves):]
	})
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
