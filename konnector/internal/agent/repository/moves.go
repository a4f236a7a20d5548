package repository

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// maxMoves is how many moves are kept. More of them at once are held as many
// removals, whether they are moves or not.
const maxMoves = 100

// movedTo is where a claim's file went, if it is known to have moved: to a path
// where it was found when it went, or to one that has the very same content (and
// with it the name of this claim).
func (r *Repository) movedTo(main *store.Snapshot, path string, blob store.Hash) (string, bool) {
	r.mu.Lock()
	moves := r.memory.Moves
	r.mu.Unlock()
	for _, m := range moves {
		if _, there := main.Entry(m.To); there && m.From == path {
			return m.To, true
		}
	}
	if blob == "" {
		return "", false
	}
	if r.blobsHead != main.Head() || r.blobs == nil {
		r.blobsHead, r.blobs = main.Head(), map[store.Hash]string{}
		for e := range main.List("") {
			r.blobs[e.Hash] = e.Path
		}
	}
	to, ok := r.blobs[blob]
	return to, ok
}

// noteMoves looks which claims' files moved between two heads of main, and saves
// that before anybody sees the newer one.
func (r *Repository) noteMoves(ctx context.Context, old, new *store.Snapshot, commits []store.Commit) error {
	var removed, added []store.Entry
	for c := range store.Diff(old, new, "") {
		switch {
		case c.New == nil:
			removed = append(removed, *c.Old)
		case c.Old == nil:
			added = append(added, *c.New)
		}
	}
	if len(removed) == 0 || len(added) == 0 {
		return nil
	}
	// What this agent removed was deleted in this cluster.
	own := map[contract.Key]bool{}
	for _, c := range commits {
		for _, t := range r.trailers(c) {
			own[t.Key] = own[t.Key] || t.Blob == ""
		}
	}
	var moves []Move
	for _, from := range removed[:min(len(removed), maxMoves)] {
		key, err := contract.ParsePath(from.Path)
		if err != nil || own[key] {
			continue
		}
		data, err := old.Read(from.Path)
		if err != nil {
			continue
		}
		was, err := contract.Decode(contract.File{Path: from.Path, Data: data}, "")
		if err != nil {
			continue
		}
		for _, to := range added[:min(len(added), maxMoves)] {
			data, err := new.Read(to.Path)
			if err == nil && isMove(key, was, contract.File{Path: to.Path, Data: data}, decodeAny) {
				moves = append(moves, Move{from.Path, to.Path})
				break
			}
		}
	}
	return r.saveMoves(ctx, new, moves)
}

func decodeAny(f contract.File) *contract.Claim {
	c, err := contract.Decode(f, "")
	if err != nil {
		return nil
	}
	return c
}

// isMove reports whether a file may be what became of a claim: it still holds
// its key, or is a claim of the same kind with an equal spec.
func isMove(key contract.Key, was *contract.Claim, f contract.File, read func(contract.File) *contract.Claim) bool {
	if read(contract.File{Path: key.Path(), Data: f.Data}) != nil {
		return true
	}
	to, err := contract.ParsePath(f.Path)
	if err != nil || to.Binding != key.Binding {
		return false
	}
	is := read(f)
	return is != nil && is.Kind == was.Kind && reflect.DeepEqual(is.Spec, was.Spec)
}

func (r *Repository) saveMoves(ctx context.Context, main *store.Snapshot, moves []Move) error {
	r.mu.Lock()
	known := r.memory.Moves
	r.mu.Unlock()
	moves = slices.DeleteFunc(moves, func(m Move) bool { return slices.Contains(known, m) })
	if len(moves) == 0 {
		return nil
	}
	return r.decide(ctx, func(m *Memory) {
		// A file that is back, or gone from where it went to, moves no more.
		kept := slices.DeleteFunc(slices.Clone(m.Moves), func(move Move) bool {
			_, back := main.Entry(move.From)
			_, there := main.Entry(move.To)
			return back || !there
		})
		all := slices.Concat(kept, moves)
		m.Moves = all[max(0, len(all)-maxMoves):]
	})
}

// Track has a binding's removals judged together with all others, from now on
// until the returned function is called. What moved while no process looked is
// found out here, from the objects without a file and the files without an
// object, and saved before it returns.
func (r *Repository) Track(ctx context.Context, binding string, claims Claims) (cancel func(), err error) {
	view, err := r.View(ctx)
	if err != nil {
		return nil, err
	}
	if view.Replaced == "" {
		if err := r.findMoves(ctx, view.Main, binding, claims); err != nil {
			return nil, fmt.Errorf("find moves in %s: %w", binding, err)
		}
	}
	r.mu.Lock()
	r.tracked[binding] = claims
	r.mu.Unlock()
	r.stateChanged()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.tracked[binding] == claims {
			delete(r.tracked, binding)
		}
	}, nil
}

// Tracks reports whether a binding is tracked.
func (r *Repository) Tracks(binding string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tracked[binding] != nil
}

func (r *Repository) findMoves(ctx context.Context, main *store.Snapshot, binding string, claims Claims) error {
	objects := map[contract.Key]bool{}
	gone, err := claims.Objects(ctx, func(key contract.Key, terminating bool) bool {
		objects[key] = true
		_, ok := main.Entry(key.Path())
		return !ok && !terminating
	})
	if err != nil {
		return err
	}
	from := map[contract.Key]*contract.Claim{}
	for _, o := range gone {
		if yes, err := r.Continues(ctx, o.Commit); err != nil {
			return err
		} else if yes && !o.Removed && o.Claim != nil {
			from[o.Key] = o.Claim
		}
	}
	if len(from) == 0 {
		return nil
	}
	var moves []Move
	for e := range main.List(contract.BindingPath(binding)) {
		if key, err := contract.ParsePath(e.Path); err == nil && objects[key] {
			continue
		}
		data, err := main.Read(e.Path)
		if err != nil {
			continue
		}
		for key, was := range maps.All(from) {
			if isMove(key, was, contract.File{Path: e.Path, Data: data}, claims.Read) {
				moves = append(moves, Move{key.Path(), e.Path})
			}
		}
	}
	return r.saveMoves(ctx, main, moves[:min(len(moves), maxMoves)])
}
