package storetest

import (
	"errors"
	"fmt"
	"sync"

	"gitbind.dev/gitbridge/store"
)

const kept = "conflicts/b.example.org/team-a/orders/0123456789"

// updateFrom begins a branch.
func (s *suite) updateFrom() {
	main := s.remote.Branch("main")
	s.update(main, Put("ns/x", "1"))
	from := s.update(main, Put("ns/y", "1"))
	begin := func(b store.Branch, from *store.Snapshot, e store.Edit) *store.Snapshot {
		s.Helper()
		snap, err := b.UpdateFrom(s.ctx, from, e)
		if err != nil {
			s.Fatal(err)
		}
		return snap
	}

	b := s.remote.Branch(kept)
	if snap := begin(b, from, Put("ns/x", "1")); snap.Head() != from.Head() || s.fetch(b).Head() != "" {
		s.Error("an edit that changes nothing created the branch")
	}
	first := begin(b, from, Put("ns/x", "lost"))
	s.want(first, "ns/x", "lost", "ns/y", "1")
	if parents := first.Commit().Parents; len(parents) != 1 || parents[0] != from.Head() {
		s.Errorf("parents %v", parents)
	}
	if n := len(s.remote.History(kept)); n != 3 {
		s.Errorf("%d commits", n)
	}
	pushes := s.remote.Pushes()
	later := s.update(main, Put("ns/z", "1"))
	fresh := s.remote.Branch(kept)
	for _, again := range []*store.Snapshot{
		begin(b, from, Put("ns/x", "lost")), begin(b, later, Put("ns/x", "lost")), begin(fresh, later, Put("ns/x", "lost")),
	} {
		if again.Head() != first.Head() {
			s.Errorf("made again, it is %s", again.Head())
		}
	}
	if n := s.remote.Pushes() - pushes; n != 1 {
		s.Errorf("%d pushes, want that of main alone", n)
	}
	s.want(begin(fresh, later, Put("ns/x", "lost again")), "ns/x", "lost again", "ns/y", "1")
	s.want(s.fetch(b), "ns/x", "lost again", "ns/y", "1")

	// It begins again once it was removed.
	s.remote.Force(kept, "")
	s.want(begin(b, later, Put("ns/x", "lost")), "ns/x", "lost", "ns/y", "1", "ns/z", "1")
	s.want(s.fetch(s.remote.Branch("main")), "ns/x", "1", "ns/y", "1", "ns/z", "1")

	// From nothing, it is a branch of its own.
	if snap := begin(s.remote.Branch("changes/b/ns/x"), &store.Snapshot{}, Put("x", "1")); len(snap.Commit().Parents) > 0 {
		s.Errorf("parents %v", snap.Commit().Parents)
	}
}

func (s *suite) updateFromAtOnce() {
	from := s.update(s.remote.Branch("main"), Put("ns/x", "1"))
	const writers = 4
	var all sync.WaitGroup
	for w := range writers {
		b := s.remote.Branch(kept)
		for range 2 {
			all.Go(func() {
				if _, err := b.UpdateFrom(s.ctx, from, increment(fmt.Sprint("counter", w))); err != nil {
					s.Error(err)
				}
			})
		}
	}
	all.Wait()
	s.want(s.fetch(s.remote.Branch(kept)), "counter0", "2", "counter1", "2", "counter2", "2", "counter3", "2", "ns/x", "1")
	history := s.remote.History(kept)
	if last := history[len(history)-1]; last.Hash != from.Head() {
		s.Errorf("it begins at %s", last.Hash)
	}
}

func (s *suite) updateFromBroken() {
	from := s.update(s.remote.Branch("main"), Put("ns/x", "1"))
	s.remote.LoseAnswers(1, nil)
	b := s.remote.Branch(kept)
	snap, err := b.UpdateFrom(s.ctx, from, increment("counter"))
	if err != nil {
		s.Fatal(err)
	}
	s.want(snap, "counter", "1", "ns/x", "1")
	b, other := s.remote.Branch(kept+"x"), s.remote.Branch(kept+"x")
	s.remote.LoseAnswers(1, func() { s.update(other, increment("counter")) })
	if snap, err = b.UpdateFrom(s.ctx, from, increment("counter")); err != nil {
		s.Fatal(err)
	}
	s.want(snap, "counter", "2", "ns/x", "1")
	if n := len(s.remote.History(kept + "x")); n != 3 {
		s.Errorf("%d commits", n)
	}
}

func (s *suite) remove() {
	main := s.update(s.remote.Branch("main"), Put("ns/x", "1"))
	b, other := s.remote.Branch(kept), s.remote.Branch(kept)
	first := s.update(b, Put("ns/x", "kept"))
	second := s.update(other, Put("ns/x", "kept again"))
	if err := b.Remove(s.ctx, first.Head()); !errors.Is(err, store.ErrConflict) {
		s.Errorf("removed where it was before: %v", err)
	}
	s.want(s.fetch(s.remote.Branch(kept)), "ns/x", "kept again")
	if err := b.Remove(s.ctx, second.Head()); err != nil {
		s.Fatal(err)
	}
	if head := s.fetch(s.remote.Branch(kept)).Head(); head != "" || b.Snapshot().Head() != "" {
		s.Errorf("it is at %q, and thought to be at %q", head, b.Snapshot().Head())
	}
	if err := other.Remove(s.ctx, second.Head()); err != nil {
		s.Errorf("a branch that is not there: %v", err)
	}
	snap, err := b.UpdateFrom(s.ctx, main, Put("ns/y", "new"))
	if err != nil {
		s.Fatal(err)
	}
	s.want(snap, "ns/x", "1", "ns/y", "new")
	s.remote.LoseAnswers(1, nil)
	if err := b.Remove(s.ctx, snap.Head()); err != nil {
		s.Errorf("without an answer: %v", err)
	}
	if head := s.fetch(s.remote.Branch(kept)).Head(); head != "" {
		s.Errorf("without an answer it is left at %s", head)
	}
}

func (s *suite) updateOver() {
	main := s.remote.Branch("main")
	s.update(main, Put("ns/x", "1"))
	b := s.remote.Branch(kept)
	if _, err := b.UpdateFrom(s.ctx, main.Snapshot(), Put("ns/x", "kept")); err != nil {
		s.Fatal(err)
	}
	// Main has what was kept, and goes on.
	s.remote.Force("main", b.Snapshot().Head())
	s.fetch(main)
	from := s.update(main, Put("ns/y", "1"))
	over := b.Snapshot().Head()
	snap, err := s.remote.Branch(kept).UpdateOver(s.ctx, over, from, Put("ns/x", "kept again"))
	if err != nil {
		s.Fatal(err)
	}
	s.want(snap, "ns/x", "kept again", "ns/y", "1")
	if parents := snap.Commit().Parents; len(parents) != 1 || parents[0] != from.Head() {
		s.Errorf("parents %v", parents)
	}
	// Elsewhere it is an update.
	if _, err := b.UpdateOver(s.ctx, over, from, Put("ns/z", "1")); err != nil {
		s.Fatal(err)
	}
	s.want(s.fetch(s.remote.Branch(kept)), "ns/x", "kept again", "ns/y", "1", "ns/z", "1")
	if snap, err = s.remote.Branch(kept+"x").UpdateOver(s.ctx, over, from, Put("ns/x", "new")); err != nil {
		s.Fatal(err)
	}
	s.want(snap, "ns/x", "new", "ns/y", "1")
}

// at reads commits that others have followed, by clients that know the newest one, or none.
func (s *suite) at() {
	writer := s.remote.Branch("main")
	first := s.update(writer, Put("a/one", "1"))
	second := s.update(writer, Put("a/two", "2"))
	third := s.update(writer, remove("a/one"))
	s.update(writer, Put("b/three", "3"))
	s.remote.Collect()
	knows := s.remote.Branch("main")
	head := s.fetch(knows).Head()
	for what, b := range map[string]store.Branch{"the writer": writer, "a reader": knows, "a stranger": s.remote.Branch("main")} {
		for commit, want := range map[store.Hash][]string{
			first.Head(): {"a/one", "1"}, second.Head(): {"a/one", "1", "a/two", "2"}, third.Head(): {"a/two", "2"},
			head: {"a/two", "2", "b/three", "3"},
		} {
			snap, err := b.At(s.ctx, commit)
			if err != nil || snap.Head() != commit {
				s.Fatalf("%s, at %s: %s, %v", what, commit.Short(), snap.Head().Short(), err)
			}
			s.want(snap, want...)
		}
		for _, unknown := range []store.Hash{"", "none", store.BlobHash([]byte("no commit"))} {
			if _, err := b.At(s.ctx, unknown); !errors.Is(err, store.ErrNotExist) {
				s.Errorf("%s, at %q: %v", what, unknown, err)
			}
		}
	}
	if now := knows.Snapshot().Head(); now != head {
		s.Errorf("the head is %s since, and was %s", now.Short(), head.Short())
	}
}
