// Package statusbranch writes the branch status of one repository: answers to
// paths of main, and observed.yaml, which says how far they have come. It
// decides nothing about claims, and it is the branch's only writer.
package statusbranch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/progress"
	"gitbind.dev/gitbridge/store"
)

// Quiet is how long after the last commit there is one of observed.yaml alone.
const Quiet = time.Second

// Branch is the branch status.
type Branch struct {
	git store.Branch
	now func() time.Time

	mu      sync.Mutex
	tracker progress.Tracker
	// flying are the writes that were not acknowledged yet, by path of main.
	flying map[string]flight
	// doubtful are the paths whose last write may have landed or not: what is known of them
	// may be older than what the remote has.
	doubtful map[string]bool
	epoch    string
	// writer is this process, and opened the sequence that it found.
	writer string
	opened int64
	// sequence is the highest that was given out, observed what the remote is
	// known to have. What was beyond that when the branch was opened, reached, others
	// may have seen: they take the branch for an older one until it is there again.
	sequence, reached int64
	observed          contract.Observed
	last              time.Time
	// tombstones are those that are on the branch, and history is after how many
	// commits the branch begins a new history.
	tombstones tombstones
	history    int64
	// dirty wakes Settle.
	dirty chan struct{}
}

// flight is a write under way.
type flight struct {
	path string
	data []byte // nil: the file is to go
	as   progress.Generation
}

// New takes a branch of which nothing is known yet.
func New(git store.Branch, now func() time.Time) *Branch {
	return &Branch{git: git, now: now, flying: map[string]flight{}, doubtful: map[string]bool{}, tombstones: tombstones{byPath: map[string]*tombstone{}}, writer: rand.Text()[:10], history: History, dirty: make(chan struct{}, 1)}
}

// SetHistory says after how many commits the branch begins a new history.
func (b *Branch) SetHistory(commits int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = commits
}

// Snapshot is the newest tree.
func (b *Branch) Snapshot() *store.Snapshot { return b.git.Snapshot() }

// Says reports whether the branch is known to have exactly this at a path; nil is that there is
// no file.
func (b *Branch) Says(path string, data []byte) bool {
	return !b.IsDoubtful(path) && says(b.Snapshot(), path, data)
}

// says reports whether a tree has exactly this at a path, nil for no file. A file that somebody
// else made too large to be read is another one.
func says(r Reader, path string, data []byte) bool {
	present, err := r.Read(path)
	if err != nil {
		return data == nil && errors.Is(err, store.ErrNotExist)
	}
	return data != nil && bytes.Equal(present, data)
}

// IsDoubtful reports whether it is not known if the last write of a path landed. Until one is
// acknowledged, the newest known tree does not tell what the branch says there.
func (b *Branch) IsDoubtful(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.doubtful[path]
}

// Open says in which epoch to write, what the branch says of itself, and which
// sequence it is known to have reached beyond that. Where the epochs differ,
// nothing can be written before Start. It may be called again when the branch
// turns out to be another one: no commit of main counts as answered there before
// one that is taken in afterwards.
func (b *Branch) Open(epoch string, o contract.Observed, reached int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch, b.observed, b.sequence, b.opened = epoch, o, max(b.sequence, o.Sequence, reached), o.Sequence
	b.reached = b.sequence
	b.tracker.Retract()
	b.wake()
}

// Sequence is the highest that the remote is known to have.
func (b *Branch) Sequence() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.observed.Sequence
}

// Epoch is the one to write in.
func (b *Branch) Epoch() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.epoch
}

// Advance takes in a commit of main, with the paths that wait for an answer.
func (b *Branch) Advance(head store.Hash, paths []string) progress.Generation {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()
	return b.tracker.Advance(head, paths)
}

// Done says that the tree answers a path of main already.
func (b *Branch) Done(mainPath string, as progress.Generation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tracker.Done(mainPath, as)
	b.wake()
}

// Replace has commits of main that wait for a path wait for others in its place.
func (b *Branch) Replace(path string, by []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tracker.Replace(path, by)
	b.wake()
}

// IsAnswered reports whether all paths of a generation have their answers.
func (b *Branch) IsAnswered(g progress.Generation) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tracker.IsAnswered(g)
}

// File is one file of the branch.
type File struct {
	Path string
	// Data is the content, nil to remove the file.
	Data []byte
	// Was is the blob that was at the path when the change was decided, "" for none. Where
	// there is another one by now, and not the content itself, the error is ErrOutdated. Nil is
	// for what does not depend on it.
	Was *store.Hash
}

// Change is one file to write. Path, Data and Was are as those of a File.
type Change struct {
	Path string
	Data []byte
	Was  *store.Hash
	// Beside are files that change in the same commit.
	Beside []File
	// Subject is for the commit.
	Subject string
	// Answers, if not "", is the path of main that this answers, as it is in a
	// generation.
	Answers string
	As      progress.Generation
	// Since is that of a tombstone, "" for another answer.
	Since string
}

// Write makes a change, and returns when the remote has it. With it goes
// observed.yaml. What is there already makes no commit.
func (b *Branch) Write(ctx context.Context, c Change) error {
	if c.Answers != "" {
		b.mu.Lock()
		b.flying[c.Answers] = flight{path: c.Path, data: c.Data, as: c.As}
		b.mu.Unlock()
	}
	err := b.update(ctx, false, c.Subject, c.apply)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.flying, c.Answers)
	if err != nil {
		// An answer of the host is not told from one that came after a lost reply. To doubt
		// without need costs no push: what is there already makes no commit.
		if own := (*ownError)(nil); !errors.As(err, &own) {
			b.doubtful[c.Path] = true
		}
		return fmt.Errorf("write %s: %w", c.Path, err)
	}
	delete(b.doubtful, c.Path)
	if c.Answers != "" {
		b.tracker.Done(c.Answers, c.As)
	}
	b.noteTombstone(c.Path, c.Since)
	b.wake()
	return nil
}

// apply makes a change on a tree.
func (c Change) apply(t *store.Tree) (bool, error) {
	changed, err := File{c.Path, c.Data, c.Was}.apply(t)
	for _, f := range c.Beside {
		also, fileErr := f.apply(t)
		changed, err = changed || also, errors.Join(err, fileErr)
	}
	return changed, err
}

func (f File) apply(t *store.Tree) (bool, error) {
	there, _ := t.Entry(f.Path)
	changed, err := put(t, f.Path, f.Data)
	if err == nil && changed && f.Was != nil && *f.Was != there.Hash {
		return false, ErrOutdated
	}
	return changed, err
}

// ownError is one of the change itself: nothing was pushed for it of which the outcome is not
// known.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// ErrForeign says that the branch is not the one that was written here: it was
// lost, set back, or written by another bridge. Nothing was written.
var ErrForeign = errors.New("the branch status is not as it was written here")

// ErrOutdated says that what an answer was decided on is not so any more. Nothing was
// written: it is to be decided again.
var ErrOutdated = errors.New("what the answer was decided on has changed")

// IsForeign reports whether the newest known tree is not the one that was
// written here.
func (b *Branch) IsForeign() bool {
	// In this order: the snapshot has what was acknowledged before it was taken.
	isForeign := b.foreign()
	return isForeign(Observed(b.git.Snapshot()))
}

// foreign reports of a tree, by what is known now, whether it is not the one that was
// written here: of another epoch, older, or written by somebody else since the branch was
// opened.
func (b *Branch) foreign() func(contract.Observed) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	epoch, sequence, opened := b.epoch, b.observed.Sequence, b.opened
	return func(o contract.Observed) bool {
		return o.Epoch != epoch || o.Sequence < sequence || o.Sequence > opened && o.Writer != b.writer
	}
}

// IsSetBack reports whether the newest known tree is of the epoch that is written here, and older
// than what the branch is known to have had. Somebody who follows the branch may have looked at just
// that tree before this was known, as a write was not acknowledged yet, and has to look at it again.
func (b *Branch) IsSetBack() bool {
	b.mu.Lock()
	epoch, sequence := b.epoch, b.observed.Sequence
	b.mu.Unlock()
	seen := Observed(b.git.Snapshot())
	return seen.Epoch == epoch && seen.Sequence < sequence
}

// IsLate reports whether a tree was only pushed when the branch had been opened, as by a process
// that has ended and whose request was still with the host: nothing was written here before it,
// so that nothing is lost.
func (b *Branch) IsLate(o contract.Observed) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return o.Epoch == b.epoch && o.Sequence > b.opened && b.observed.Sequence == b.opened
}

// update makes a change, and with it one of observed.yaml. Only a start may be
// made on a foreign branch.
func (b *Branch) update(ctx context.Context, start bool, subject string, change func(*store.Tree) (bool, error)) error {
	var observed contract.Observed
	_, err := b.git.Update(ctx, store.Edit{
		Author:  author(),
		Subject: subject,
		Apply: func(t *store.Tree) error {
			var err error
			if observed, err = b.applyTo(t, start, change); err != nil {
				return &ownError{err}
			}
			return nil
		},
	})
	if err != nil || observed.Epoch == "" {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = b.now()
	if observed.Epoch == b.epoch && observed.Sequence > b.observed.Sequence {
		b.observed = observed
	}
	return nil
}

// applyTo makes a change on a tree, and gives what the tree says of itself then: nothing, if
// it is no change.
func (b *Branch) applyTo(t *store.Tree, start bool, change func(*store.Tree) (bool, error)) (contract.Observed, error) {
	changed, err := change(t)
	// A branch that is another one is told first: what was decided on is not there either.
	if !start && (changed || errors.Is(err, ErrOutdated)) && b.foreign()(Observed(t)) {
		return contract.Observed{}, ErrForeign
	}
	if err != nil || !changed {
		return contract.Observed{}, err
	}
	if err := b.removeExpired(t); err != nil {
		return contract.Observed{}, err
	}
	return b.observe(t, start, false)
}

func put(t *store.Tree, path string, data []byte) (changed bool, err error) {
	switch {
	case says(t, path, data):
		return false, nil
	case data == nil:
		return true, t.Remove(path)
	default:
		return true, t.Write(path, data)
	}
}

// observe writes observed.yaml. A write that is in the same tree counts as an
// answer: both get there, or neither. At a start it answers no commit.
func (b *Branch) observe(t *store.Tree, start, cut bool) (contract.Observed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	head := b.tracker.AnsweredWith(func(path string, generation progress.Generation) bool {
		f, ok := b.flying[path]
		return ok && f.as >= generation && f.isIn(t)
	})
	present := Observed(t)
	if head == "" && !start {
		// Nothing was answered by this process yet.
		head = store.Hash(present.Commit)
	}
	b.sequence = max(b.sequence, present.Sequence) + 1
	o := contract.Observed{Commit: string(head), Sequence: b.sequence, Epoch: b.epoch, Cut: present.Cut + b.sequence - present.Sequence - 1, Writer: b.writer}
	if cut {
		o.Cut = o.Sequence
	}
	data, err := contract.EncodeObserved(o)
	if err != nil {
		return contract.Observed{}, err
	}
	return o, t.Write(contract.ObservedPath, data)
}

func (f flight) isIn(t *store.Tree) bool {
	data, err := t.Read(f.path)
	if err != nil {
		return f.data == nil && errors.Is(err, store.ErrNotExist)
	}
	return f.data != nil && bytes.Equal(data, f.data)
}

// Reader is a tree or a snapshot.
type Reader interface {
	Read(path string) ([]byte, error)
}

// Observed is what a tree of status says of itself. It is zero when it says
// nothing that can be read: the next change writes it again.
func Observed(r Reader) contract.Observed {
	data, err := r.Read(contract.ObservedPath)
	if err != nil {
		return contract.Observed{}
	}
	o, err := contract.DecodeObserved(data)
	if err != nil {
		return contract.Observed{}
	}
	return o
}

func author() store.Signature {
	name, email := contract.BridgeIdentity()
	return store.Signature{Name: name, Email: email}
}

func (b *Branch) wake() {
	select {
	case b.dirty <- struct{}{}:
	default:
	}
}
