package repository

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/store"
)

// Lineage is main as far as it was accepted.
type Lineage struct {
	main        facts.Main
	checkpoints *Checkpoints
	// changed is told that another head was judged, and what was found of the one before.
	changed func(before, now *accepted)
	// noteStep saves what moved with a step of main: that of Removals.
	noteStep func(ctx context.Context, old, main *store.Snapshot, changes []store.Change, passed []store.Commit) error

	commits *guard.Lineage
	// tooFar are the commits since which accepted heads have more history than is read: the
	// errors, by commit. Later heads have more, and are not asked about.
	tooFar sync.Map
	// accepting is held while a new head is judged. Waiting for it can be given up.
	accepting *semaphore.Weighted
	last      atomic.Pointer[accepted]
}

// accepted is what was found of the last head that was judged.
type accepted struct {
	// known says that a head was judged, and that the process has seen what the
	// accepted one holds: tree. Head is the last one that was judged.
	known   bool
	head    store.Hash
	verdict guard.Verdict
	tree    *store.Snapshot
	// recent are the heads that were accepted last, the newest one last.
	recent []step
}

// step is an accepted head, and which files it has that the one before had not, and the
// other way round: sorted paths. A whole tree of each head would be kept otherwise, in
// as many versions as there are heads.
type step struct {
	head           store.Hash
	added, removed []string
}

// maxRecent is how many heads are remembered.
const maxRecent = 64

func newLineage(main facts.Main, checkpoints *Checkpoints) *Lineage {
	l := &Lineage{main: main, checkpoints: checkpoints, accepting: semaphore.NewWeighted(1)}
	l.commits = guard.NewLineage(main.Ask, string(checkpoints.get().Accepted), nil)
	l.last.Store(&accepted{})
	return l
}

// accept judges the head of main.
func (l *Lineage) accept(ctx context.Context) (*store.Snapshot, guard.Verdict, error) {
	main := l.main.Snapshot()
	if last := l.last.Load(); last.known && last.head == main.Head() {
		return main, last.verdict, nil
	}
	if err := l.accepting.Acquire(ctx, 1); err != nil {
		return nil, guard.Verdict{}, err
	}
	defer l.accepting.Release(1)
	// It is read again: an older one would look as if it went back.
	main = l.main.Snapshot()
	known := l.last.Load()
	last := *known
	if last.known && last.head == main.Head() {
		return main, last.verdict, nil
	}
	before := l.Accepted()
	descends, passed, err := l.descends(ctx, before, main)
	if err != nil {
		return nil, guard.Verdict{}, fmt.Errorf("history of main since %s: %w", before.Short(), err)
	}
	v := guard.Main{
		Head: string(main.Head()), Accepted: string(before), Descends: descends, Empty: main.Files() == 0, Writer: true,
	}.Judge()
	if v.IsHeld() {
		v.Message = wordsOfMain(v, before)
	} else if err := l.take(ctx, &last, main, passed); err != nil {
		return nil, guard.Verdict{}, err
	}
	last.known, last.head, last.verdict = true, main.Head(), v
	l.last.Store(&last)
	l.changed(known, &last)
	return main, v, nil
}

// take makes a head the accepted one. What moved is saved before anybody sees it.
func (l *Lineage) take(ctx context.Context, last *accepted, main *store.Snapshot, passed []store.Commit) error {
	this := step{head: main.Head()}
	var changes []store.Change
	if last.tree != nil {
		changes = slices.Collect(store.Diff(last.tree, main, ""))
		this.note(changes)
	}
	if err := l.noteStep(ctx, last.tree, main, changes, passed); err != nil {
		return err
	}
	if l.Accepted() != main.Head() {
		l.checkpoints.note(func(c *Checkpoint) { c.Accepted = main.Head() })
	}
	l.commits.Accept(string(main.Head()), facts.Hashes(passed))
	last.tree = main
	last.recent = append(slices.Clone(last.recent[max(0, len(last.recent)-maxRecent+1):]), this)
	return nil
}

// note keeps which files came and went.
func (s *step) note(changes []store.Change) {
	for _, c := range changes {
		switch {
		case c.Old == nil:
			s.added = append(s.added, c.Path)
		case c.New == nil:
			s.removed = append(s.removed, c.Path)
		}
	}
	slices.Sort(s.added)
	slices.Sort(s.removed)
}

// at is what Continues is asked of for a head that is not accepted yet, by the commits that it
// has.
func (l *Lineage) at(head store.Hash, has []store.Commit) *Lineage {
	return &Lineage{main: l.main, commits: guard.NewLineage(l.main.Ask, string(head), facts.Hashes(has))}
}

// begin lets main count from its head on, because a person said so.
func (l *Lineage) begin(head store.Hash) {
	l.commits.Begin(string(head))
	l.tooFar.Clear()
	l.last.Store(&accepted{})
}

// Accepted is the last commit of main that was accepted.
func (l *Lineage) Accepted() store.Hash { return l.checkpoints.get().Accepted }

// descends reports whether a head descends from a commit, and which commits lie between.
func (l *Lineage) descends(ctx context.Context, from store.Hash, head *store.Snapshot) (bool, []store.Commit, error) {
	switch {
	case from == "", from == head.Head():
		return true, nil, nil
	case head.Head() == "":
		return false, nil, nil
	}
	if slices.Equal(head.Commit().Parents, []store.Hash{from}) {
		return true, []store.Commit{head.Commit()}, nil
	}
	commits, descends, err := l.main.Log(ctx, from, head.Head())
	var limit *store.LimitError
	if errors.As(err, &limit) {
		// A person can still say that it is right.
		return false, nil, nil
	}
	if err != nil || !descends {
		return false, nil, err
	}
	return true, commits, nil
}

// Continues reports whether main, as it was accepted, descends from a commit.
func (l *Lineage) Continues(ctx context.Context, from store.Hash) (bool, error) {
	if l.IsTooFar(from) {
		return false, nil
	}
	has, err := l.commits.Has(ctx, string(from))
	if store.LastingLimit(err) != nil {
		// It cannot be told, and a person can still say.
		l.tooFar.Store(from, err)
		return false, nil
	}
	return has, err
}

// IsTooFar reports whether Continues was no for a commit because main has more history since
// than is read.
func (l *Lineage) IsTooFar(commit store.Hash) bool {
	_, is := l.tooFar.Load(commit)
	return is && !l.passed(commit)
}

// log is Log of an accepted head.
func (l *Lineage) log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	if err, is := l.tooFar.Load(since); is {
		return nil, false, err.(error)
	}
	commits, descends, err := l.main.Log(ctx, since, to)
	if store.LastingLimit(err) != nil {
		l.tooFar.Store(since, err)
	}
	return commits, descends, err
}

// passed is Continues of commits that main came to, or past, while this process looked. It
// asks for nothing.
func (l *Lineage) passed(commit store.Hash) bool { return l.commits.Passed(string(commit)) }

// ErrOutdated says that main has moved on since it was viewed.
var ErrOutdated = errors.New("main has moved on")

// UntilCurrent repeats a look at a view of main for as long as its error is ErrOutdated. It
// ends as soon as main stands still for the length of a look, which takes less than a push.
func UntilCurrent[T any](ctx context.Context, look func() (T, error)) (T, error) {
	for {
		seen, err := look()
		if !errors.Is(err, ErrOutdated) || ctx.Err() != nil {
			return seen, err
		}
	}
}

// Continues reports whether main descends from a commit, as it is in this view, or as it
// was accepted last if it is replaced. The error is ErrOutdated where main has moved on: it may
// have the commit only since, and by the files of this view, what came with it would seem to be
// removed.
func (v View) Continues(ctx context.Context, from store.Hash) (bool, error) {
	has, err := v.lineage.Continues(ctx, from)
	if err == nil && v.isOutdated() {
		return false, ErrOutdated
	}
	return has, err
}

// IsTooFar is that of the Lineage.
func (v View) IsTooFar(from store.Hash) bool { return v.lineage.IsTooFar(from) }

func (v View) isOutdated() bool {
	return v.Replaced == "" && v.lineage.Accepted() != v.Main.Head()
}

// StillAgreed reports whether what an object and its file agreed on at a commit of main
// still counts. It does as long as main was never rewritten; after that, if the
// commit is part of it. The error is that of Continues.
func (v View) StillAgreed(ctx context.Context, at store.Hash) (bool, error) {
	if v.lineage.checkpoints.get().Begun == "" {
		return true, nil
	}
	return v.Continues(ctx, at)
}

// Follows reports whether one commit of main came after another. It is no where that cannot
// be told, as there is more history between them than is read.
func (l *Lineage) Follows(ctx context.Context, from, to store.Hash) (bool, error) {
	if from == "" || to == "" || from == to {
		return false, nil
	}
	_, descends, err := l.main.Log(ctx, from, to)
	if store.LastingLimit(err) != nil {
		return false, nil
	}
	return descends, err
}

// HadFile tells the guard whether main had a file at a commit.
func (l *Lineage) HadFile(commit, path string) (had, known bool) {
	last := l.last.Load()
	if last.tree == nil {
		return false, false
	}
	_, had = last.tree.Entry(path)
	for _, s := range slices.Backward(last.recent) {
		if s.head == store.Hash(commit) {
			return had, true
		}
		if _, added := slices.BinarySearch(s.added, path); added {
			had = false
		}
		if _, removed := slices.BinarySearch(s.removed, path); removed {
			had = true
		}
	}
	return false, false
}
