package repository

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// named is a claim that is in no world from the beginning.
func named(name string) contract.Key {
	return contract.Key{Binding: api, Namespace: "team-a", Name: name}
}

// renamed are the files of a push that gives a claim another name and another plan.
func renamed(from, to contract.Key) map[string]string {
	return map[string]string{from.Path(): "", to.Path(): fileOf(to, "plan of "+to.Name)}
}

// isHeldAsMoved checks that a claim is held for the file that it may be in now.
func (w *world) isHeldAsMoved(key contract.Key, to string) {
	w.Helper()
	v, err := w.repo.Removals.Judge(w.Context(), key, true)
	if err != nil || v.Reason != contract.Moved || v.MovedTo != to {
		w.Errorf("%s: held %q for %q, passing %v, error %v; want Moved for %s", key, v.Reason, v.MovedTo, v.Passing, err, to)
	}
}

// restarted is the next process, with what the one before has saved, and nothing of what came since.
func (w *world) restarted() *world {
	w.Helper()
	if err := w.repo.Checkpoints.Save(w.Context()); err != nil {
		w.Fatal(err)
	}
	again := newWorldWith(w.T, w.lastSaved(), w.remote)
	again.run()
	again.until("contact", func() bool { return again.repo.Health().Contacted })
	return again
}

func TestL10_AMoveIsSeenBesideManyClaimsOfAnotherAPI(t *testing.T) {
	t.Parallel()
	w, _ := newCounted(t, 20)
	files := renamed(keyOf(0), named("renamed"))
	for i := range maxMoves {
		other := contract.Key{Binding: "buckets.anynines.com", Namespace: "team-a", Name: fmt.Sprint("b", i)}
		files[other.Path()] = fmt.Sprintf("apiVersion: anynines.com/v1\nkind: Bucket\nmetadata: {name: %s, namespace: team-a}\n", other.Name)
	}
	w.push(files)
	w.isHeldAsMoved(keyOf(0), named("renamed").Path())
}

func TestL10_AMoveIsSeenBesideManyDeletesOfObjects(t *testing.T) {
	t.Parallel()
	w, o := newCounted(t, 3*maxMoves)
	w.repo.Suspend()
	konnector := store.Signature{}
	konnector.Name, konnector.Email = contract.ComponentIdentity(contract.Konnector, cluster)
	w.remote.Committer = konnector
	var trailers []store.Trailer
	deleted := keysFrom(maxMoves, maxMoves)
	for _, key := range deleted {
		trailers = append(trailers, store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: "u", Generation: 1}.String()})
		o.gone(key)
	}
	_, err := w.remote.Branch("main").Update(t.Context(), store.Edit{
		Author: store.Signature{Name: "Bob", Email: "bob@" + contract.ClusterDomain(cluster)}, Subject: "delete", Trailers: trailers,
		Apply: func(t *store.Tree) error {
			for _, key := range deleted {
				if err := t.Remove(key.Path()); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	last := keyOf(3*maxMoves - 1)
	w.put(w.person, named("renamed").Path(), fileOf(named("renamed"), "plan7"))
	w.put(w.person, last.Path(), "")
	w.repo.Resume()
	w.sees(w.remote.Head("main"))
	w.isHeldAsMoved(last, named("renamed").Path())
}

// TestL10_AMoveThatNobodyDecidedIsRemembered decides on so many later ones that they would take its place.
func TestL10_AMoveThatNobodyDecidedIsRemembered(t *testing.T) {
	t.Parallel()
	w, o := newCounted(t, 2*maxMoves)
	w.push(renamed(keyOf(0), named("renamed")))
	for from := 1; from <= maxMoves; from += maxMoves / 2 {
		files := map[string]string{}
		keys := keysFrom(from, maxMoves/2)
		for _, key := range keys {
			files[key.Path()] = ""
		}
		files[named(fmt.Sprint("d", from)).Path()] = fileOf(named(fmt.Sprint("d", from)), "plan7")
		w.push(files)
		for _, key := range keys {
			o.gone(key)
		}
	}
	w.push(renamed(keyOf(maxMoves+1), named("last")))
	for _, w := range []*world{w, w.restarted()} {
		w.isHeldAsMoved(keyOf(0), named("renamed").Path())
		w.isHeldAsMoved(keyOf(maxMoves+1), named("last").Path())
	}
}

// TestL10_MoreMovesThanAreKeptAreHeld renames more claims than are kept one by one. They are held
// until all are decided on, and no longer.
func TestL10_MoreMovesThanAreKeptAreHeld(t *testing.T) {
	t.Parallel()
	w, o := newCounted(t, 3*maxMoves)
	files, moved := map[string]string{}, keysFrom(0, maxMoves+1)
	for _, key := range moved {
		files[key.Path()] = ""
	}
	files[named("renamed").Path()] = fileOf(named("renamed"), "plan7")
	w.push(files)
	for _, key := range moved {
		w.isHeldAsMoved(key, contract.ClaimsPath(api)+"/")
	}
	if v, err := w.repo.Removals.Judge(t.Context(), moved[0], true); err != nil || !strings.Contains(v.Message, "one of the files that came to "+contract.ClaimsPath(api)) {
		t.Errorf("%q %v", v.Message, err)
	}
	if n := len(w.lastSaved().Moves); n != 1 {
		t.Errorf("%d moves are saved, want one for all", n)
	}
	again := w.restarted()
	again.track(o)
	for _, key := range moved[1:] {
		o.gone(key)
	}
	again.push(map[string]string{"note": "1"})
	again.isHeldAsMoved(moved[0], contract.ClaimsPath(api)+"/")
	o.gone(moved[0])
	again.push(renamed(keyOf(2*maxMoves), named("next")))
	again.isHeldAsMoved(keyOf(2*maxMoves), named("next").Path())
	again.removeFiles(keyOf(2*maxMoves + 1))
	again.may(o, true, true, keyOf(2*maxMoves+1))
}

// newHeldAtTheStart has 20 claims, and a process that starts while main is held, as the last commit
// is missing.
func newHeldAtTheStart(t *testing.T) (again *world, o *objects, last store.Hash) {
	t.Helper()
	w, o := newCounted(t, 20)
	backup := w.view().Main.Head()
	last = w.push(map[string]string{"note": "1"})
	w.repo.Suspend()
	w.remote.ForceHead("main", backup)
	return w.restarted(), o, last
}

// TestL10_AMoveIsSeenWhenMainIsRightAgain has a process start while main is held, and main come
// right by the push that renames a claim.
func TestL10_AMoveIsSeenWhenMainIsRightAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mend func(t *testing.T, w *world, last store.Hash)
	}{
		"as it was before": {func(t *testing.T, w *world, last store.Hash) {
			w.repo.Suspend()
			w.remote.ForceHead("main", last)
			w.put(w.remote.Branch("main"), named("renamed").Path(), fileOf(named("renamed"), "plan7"))
			head := w.put(w.remote.Branch("main"), keyOf(0).Path(), "")
			w.repo.Resume()
			w.sees(head)
		}},
		"as a person approved it": {func(t *testing.T, w *world, _ store.Hash) {
			head := w.push(renamed(keyOf(0), named("renamed")))
			if err := w.repo.ApproveMain(t.Context(), string(head)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again, o, last := newHeldAtTheStart(t)
			again.track(o)
			if again.view().Replaced == "" {
				t.Fatal("main is not held")
			}
			tc.mend(t, again, last)
			if replaced := again.view().Replaced; replaced != "" {
				t.Fatal(replaced)
			}
			// Now the object of the new file is made.
			o.mu.Lock()
			o.all[named("renamed")] = Object{Key: named("renamed"), Commit: again.view().Main.Head()}
			o.mu.Unlock()
			again.isHeldAsMoved(keyOf(0), named("renamed").Path())
		})
	}
}

// TestL10_AMoveIsSeenWhenMainIsRightAgainBeforeAnAPIIsFollowed has that happen after it was found
// that main is held, and before the API's removals are judged with the others.
func TestL10_AMoveIsSeenWhenMainIsRightAgainBeforeAnAPIIsFollowed(t *testing.T) {
	t.Parallel()
	again, o, last := newHeldAtTheStart(t)
	view := again.repo.Removals.view
	again.repo.Removals.view = func(ctx context.Context) (View, error) {
		again.repo.Removals.view = view
		held, err := view(ctx)
		if err != nil || held.Replaced == "" {
			t.Errorf("%+v, %v: want main to be held", held, err)
		}
		again.repo.Suspend()
		again.remote.ForceHead("main", last)
		again.put(again.remote.Branch("main"), named("renamed").Path(), fileOf(named("renamed"), "plan7"))
		head := again.put(again.remote.Branch("main"), keyOf(0).Path(), "")
		again.repo.Resume()
		again.sees(head)
		return held, nil
	}
	again.track(o)
	o.mu.Lock()
	o.all[named("renamed")] = Object{Key: named("renamed"), Commit: again.view().Main.Head()}
	o.mu.Unlock()
	again.isHeldAsMoved(keyOf(0), named("renamed").Path())
}

func TestL10_AFileThatCouldNotBeReadHasMovedToo(t *testing.T) {
	t.Parallel()
	w, _ := newCounted(t, 20)
	w.push(map[string]string{keyOf(0).Path(): "spec: {plan"})
	w.push(renamed(keyOf(0), named("renamed")))
	w.isHeldAsMoved(keyOf(0), named("renamed").Path())
}

func TestL10_AClaimThatIsOrderedAgainHasNotMoved(t *testing.T) {
	t.Parallel()
	w, o := newCounted(t, 20)
	was := o.all[keyOf(0)]
	w.push(renamed(keyOf(0), named("renamed")))
	w.isHeldAsMoved(keyOf(0), named("renamed").Path())
	o.gone(keyOf(0))
	was.Commit = w.push(map[string]string{keyOf(0).Path(): fileOf(keyOf(0), "plan0")})
	o.mu.Lock()
	o.all[keyOf(0)] = was
	o.mu.Unlock()
	w.removeFiles(keyOf(0))
	w.may(o, true, true, keyOf(0))
}

// listing is what an API has, none, and what happens while it is listed.
type listing struct {
	objects
	meanwhile func()
}

func (l *listing) Objects(context.Context, func(contract.Key, bool) bool) ([]Object, error) {
	meanwhile := l.meanwhile
	l.meanwhile = func() {}
	meanwhile()
	return nil, nil
}

// What moves while another API is listed is not forgotten by what is found there, of an older main.
func TestL10_AMoveThatIsSeenWhileAnAPIIsListedIsKept(t *testing.T) {
	t.Parallel()
	w, _ := newCounted(t, 20)
	listed := &listing{meanwhile: func() { w.push(renamed(keyOf(0), named("renamed"))) }}
	if _, err := w.repo.Removals.Track(t.Context(), "buckets.anynines.com", listed); err != nil {
		t.Fatal(err)
	}
	w.isHeldAsMoved(keyOf(0), named("renamed").Path())
}

// One for each API is kept, however many there are.
func TestL10_MovesOfManyAPIsAreAllKept(t *testing.T) {
	t.Parallel()
	var moves []Move
	for i := range 2 * maxMoves {
		key := contract.Key{Binding: fmt.Sprintf("a%d.example.com", i), Namespace: "team-a", Name: "x"}
		other := key
		other.Name = "y"
		moves = append(moves, Move{key.Path(), other.Path()})
	}
	if kept := atMost(moves); len(kept) != len(moves) {
		t.Errorf("%d of %d are kept", len(kept), len(moves))
	}
}
