// Package storetest holds the rules that all implementations of store.Branch
// keep. It does not know how they reach their remote.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
)

// Remote is an empty repository, and what a test does to it.
type Remote interface {
	// Branch returns a new client of a branch, with its own knowledge.
	Branch(name string) store.Branch
	// LoseAnswers lets the next n pushes take effect without an answer. Then
	// comes is called, if not nil, after each.
	LoseAnswers(n int, then func())
	// Break lets the next n requests of any kind fail without effect.
	Break(n int)
	// Reject lets the remote reject pushes of trees that have a file at path,
	// with some words; "" ends it.
	Reject(path, words string)
	// Force sets a branch to a commit that the remote has; "" removes it.
	Force(branch string, to store.Hash)
	// Collect lets the remote tidy up as it would after some time.
	Collect()
	// Pushes is how many pushes took effect.
	Pushes() int
	// History is a branch's commits as the remote has them, newest first.
	History(branch string) []store.Commit
}

// Run tests an implementation, several rules at a time. Each call of newRemote
// gives another remote.
func Run(t *testing.T, newRemote func(t *testing.T) Remote) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"empty remote", (*suite).emptyRemote},
		{"read, list and diff", (*suite).readListDiff},
		{"a commit that is not the head has its files", (*suite).at},
		{"update creates the branch", (*suite).createBranch},
		{"no change makes no commit", (*suite).noChange},
		{"removing the last file removes the folder", (*suite).removeFolders},
		{"a commit has its author, committer, message and trailers", (*suite).commitText},
		{"edits that wait travel together", (*suite).groupCommit},
		{"the newest commits can be asked for", (*suite).recent},
		{"edits of one path keep their order", (*suite).groupOrder},
		{"a failing edit leaves no trace", (*suite).failingEdit},
		{"a caller who gives up leaves the others alone", (*suite).givenUp},
		{"a branch begins at another one's commit", (*suite).updateFrom},
		{"a branch that many begin at once begins once", (*suite).updateFromAtOnce},
		{"a branch begins once whatever breaks", (*suite).updateFromBroken},
		{"a branch goes forward to another one that has all of it", (*suite).updateOver},
		{"a branch is removed where it is thought to be and nowhere else", (*suite).remove},
		{"a history that is cut begins again with the same files", (*suite).cut},
		{"a cut that others are in the way of loses nothing", (*suite).cutContended},
		{"a cut that nobody answered happens once", (*suite).cutBroken},
		{"writers who contend lose nothing", (*suite).contend},
		{"a rejection is final and has the remote's words", (*suite).rejected},
		{"a rejected edit is not the others' error", (*suite).rejectedInBatch},
		{"a lost answer is settled without a second commit", (*suite).lostAnswer},
		{"a lost answer is settled below others' commits", (*suite).lostAnswerBuried},
		{"after a broken connection it goes on", (*suite).broken},
		{"nothing is lost or done twice whatever breaks", (*suite).chaos},
		{"a hint spares nothing but time", (*suite).fetchTip},
		{"fetch after the history was replaced", (*suite).forced},
		{"an edit is made on what continues what it was decided on", (*suite).since},
		{"a branch that is gone is empty", (*suite).gone},
		{"log", (*suite).log},
		{"content that comes back after the remote tidied up", (*suite).flipFlop},
		{"readers while it changes", (*suite).readers},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&suite{T: t, remote: newRemote(t), ctx: t.Context()})
		})
	}
}

// suite is one test on its own remote.
type suite struct {
	*testing.T
	remote Remote
	ctx    context.Context
}

// Author is the author of edits that do not say another.
var Author = store.Signature{Name: "Ada", Email: "ada@example.org"}

// Put is an edit that writes a file.
func Put(path, content string) store.Edit {
	return store.Edit{
		Author:  Author,
		Subject: "claim: put " + path,
		Apply:   func(t *store.Tree) error { return t.Write(path, []byte(content)) },
	}
}

func remove(path string) store.Edit {
	return store.Edit{
		Author:  Author,
		Subject: "claim: remove " + path,
		Apply:   func(t *store.Tree) error { return t.Remove(path) },
	}
}

// increment is an edit that would show when it is lost or done twice.
func increment(path string) store.Edit {
	return store.Edit{
		Author:  Author,
		Subject: "claim: increment " + path,
		Apply: func(t *store.Tree) error {
			n := 0
			data, err := t.Read(path)
			if err == nil {
				_, err = fmt.Sscan(string(data), &n)
			} else if errors.Is(err, store.ErrNotExist) {
				err = nil
			}
			if err != nil {
				return err
			}
			return t.Write(path, fmt.Append(nil, n+1))
		},
	}
}

func (s *suite) update(b store.Branch, e store.Edit) *store.Snapshot {
	s.Helper()
	snap, err := b.Update(s.ctx, e)
	if err != nil {
		s.Fatalf("%s: %v", e.Subject, err)
	}
	return snap
}

func (s *suite) fetch(b store.Branch) *store.Snapshot {
	s.Helper()
	snap, err := b.Fetch(s.ctx)
	if err != nil {
		s.Fatalf("fetch: %v", err)
	}
	return snap
}

// want compares a tree with pairs of paths and contents.
func (s *suite) want(snap *store.Snapshot, pairs ...string) {
	s.Helper()
	if got := Contents(s, snap); fmt.Sprint(got) != fmt.Sprint(pairs) {
		s.Fatalf("tree is %q, want %q", got, pairs)
	}
}

// Contents are the paths and contents of all files.
func Contents(t testing.TB, snap *store.Snapshot) []string {
	t.Helper()
	var all []string
	for e := range snap.List("") {
		data, err := snap.Read(e.Path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Path, string(data))
	}
	return all
}

// batch runs edits as one batch: they wait behind a first edit, which writes
// the file "first".
func (s *suite) batch(b store.Branch, edits ...store.Edit) []error {
	s.Helper()
	running, release := make(chan struct{}), make(chan struct{})
	first := Put("first", "1")
	apply := first.Apply
	first.Apply = func(t *store.Tree) error {
		close(running)
		<-release
		return apply(t)
	}

	var all sync.WaitGroup
	errs := make([]error, len(edits))
	start := func(e store.Edit, err *error) {
		ctx := &queuedContext{Context: s.ctx, queued: make(chan struct{})}
		all.Go(func() { _, *err = b.Update(ctx, e) })
		select {
		case <-ctx.queued:
		case <-time.After(time.Minute):
			s.Error("an edit does not wait for its answer")
		}
	}
	var err error
	start(first, &err)
	<-running
	for i, e := range edits {
		start(e, &errs[i])
	}
	close(release)
	all.Wait()
	if err != nil {
		s.Fatal(err)
	}
	return errs
}

// queuedContext tells when somebody begins to wait for its end, which Update
// does once its edit is in the queue.
type queuedContext struct {
	context.Context
	once   sync.Once
	queued chan struct{}
}

func (c *queuedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.queued) })
	return c.Context.Done()
}

func (s *suite) noErrors(errs []error) {
	s.Helper()
	for _, err := range errs {
		if err != nil {
			s.Error(err)
		}
	}
}
