package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gitbind.dev/gitbridge/store"
)

func (s *suite) createBranch() {
	a, b := s.remote.Branch("main"), s.remote.Branch("changes/b/team-a/orders")
	first := s.update(a, Put("x", "1"))
	if first.Head() == "" || len(first.Commit().Parents) > 0 || a.Snapshot() != first {
		s.Errorf("first commit %+v", first.Commit())
	}
	s.update(b, Put("y", "2"))
	s.want(s.fetch(s.remote.Branch("main")), "x", "1")
	s.want(s.fetch(s.remote.Branch("changes/b/team-a/orders")), "y", "2")

	// One who thinks that the branch is new, while it is not.
	late := s.remote.Branch("late")
	s.fetch(late)
	s.update(s.remote.Branch("late"), Put("x", "1"))
	s.want(s.update(late, Put("y", "2")), "x", "1", "y", "2")
}

func (s *suite) noChange() {
	b := s.remote.Branch("main")
	nothing := store.Edit{Author: Author, Subject: "nothing", Apply: func(*store.Tree) error { return nil }}
	if snap := s.update(b, nothing); snap.Head() != "" {
		s.Errorf("a commit without a tree: %v", snap.Commit())
	}
	first := s.update(b, Put("x", "1"))
	backAndForth := store.Edit{Author: Author, Subject: "back and forth", Apply: func(t *store.Tree) error {
		return errors.Join(t.Write("x", []byte("2")), t.Write("y", nil), t.Remove("y"), t.Write("x", []byte("1")))
	}}
	for _, e := range []store.Edit{nothing, Put("x", "1"), backAndForth} {
		if snap := s.update(b, e); snap.Head() != first.Head() {
			s.Errorf("%s: new commit", e.Subject)
		}
	}
	if n := s.remote.Pushes(); n != 1 {
		s.Errorf("%d pushes", n)
	}
}

func (s *suite) commitText() {
	b := s.remote.Branch("main")
	e := Put("x", "1")
	e.Author = store.Signature{Name: "Eve\n<eve>", Email: "eve@example.org>\nx"}
	e.CoAuthors = []store.Signature{Author, {Name: "Bob", Email: "bob@example.org"}, e.Author}
	e.Subject = "claim: update team-a/orders\n\nForged: yes"
	e.Trailers = []store.Trailer{{Key: "Gitbind-Cluster", Value: "k3x"}, {Key: "Gitbind-Object", Value: "uid\nForged: yes"}}
	s.update(b, e)
	got := s.remote.History("main")[0]
	if want := (store.Signature{Name: "Eveeve", Email: "eve@example.orgx"}); got.Author != want {
		s.Errorf("author %v", got.Author)
	}
	if got.Committer == got.Author || got.Committer.Email == "" || got.Time.IsZero() {
		s.Errorf("committer %v at %v", got.Committer, got.Time)
	}
	want := `claim: update team-a/orders Forged: yes

Gitbind-Cluster: k3x
Gitbind-Object: uid Forged: yes
Co-authored-by: Ada <ada@example.org>
Co-authored-by: Bob <bob@example.org>
`
	if got.Message != want {
		s.Errorf("message:\n%s", got.Message)
	}
	if mine := b.Snapshot().Commit(); mine.Message != want || mine.Author != got.Author || !mine.Time.Equal(got.Time) || mine.Hash != got.Hash {
		s.Errorf("the writer thinks it is %+v", mine)
	}
}

func (s *suite) groupCommit() {
	b := s.remote.Branch("main")
	bob := store.Signature{Name: "Bob", Email: "bob@example.org"}
	var edits []store.Edit
	for i := range 6 {
		e := Put(fmt.Sprintf("ns/%d", i), "1")
		if i%2 == 1 {
			e.Author = bob
		}
		e.Trailers = []store.Trailer{{Key: "Cluster", Value: "k3x"}, {Key: "Object", Value: fmt.Sprint(i)}}
		edits = append(edits, e)
	}
	s.noErrors(s.batch(b, edits...))
	if n := s.remote.Pushes(); n != 2 {
		s.Errorf("%d pushes, want that of the first and that of the others", n)
	}
	history := s.remote.History("main")
	if len(history) != 3 {
		s.Fatalf("%d commits", len(history))
	}
	if history[0].Author != bob || history[1].Author != Author {
		s.Errorf("authors %v, %v", history[0].Author, history[1].Author)
	}
	want := `claim: 3 changes

- claim: put ns/0
- claim: put ns/2
- claim: put ns/4

Cluster: k3x
Object: 0
Object: 2
Object: 4
`
	if got := history[1].Message; got != want {
		s.Errorf("message:\n%s", got)
	}
	commits, descends, err := b.Log(s.ctx, history[2].Hash, history[0].Hash)
	if err != nil || !descends || len(commits) != 2 || commits[1].Hash != history[1].Hash {
		s.Errorf("log %v %v %v", commits, descends, err)
	}
}

func (s *suite) recent() {
	b := s.remote.Branch("main")
	for i := range 4 {
		s.noErrors(s.batch(b, Put("x", fmt.Sprint(i))))
	}
	history := s.remote.History("main")
	for depth, want := range map[int]int{1: 1, 3: 3, len(history): len(history), 100: len(history)} {
		// Another one has no commits at hand.
		commits, err := s.remote.Branch("main").Recent(s.ctx, history[0].Hash, depth)
		if err != nil {
			s.Fatal(err)
		}
		var got, all []store.Hash
		for _, c := range commits {
			got = append(got, c.Hash)
		}
		for _, c := range history[:want] {
			all = append(all, c.Hash)
		}
		if !slices.Equal(got, all) || len(commits[0].Parents) != 1 || commits[0].Message != history[0].Message {
			s.Errorf("at most %d: got %v, want %v", depth, got, all)
		}
	}
}

func (s *suite) groupOrder() {
	b := s.remote.Branch("main")
	bob := store.Signature{Name: "Bob", Email: "bob@example.org"}
	by := func(author store.Signature, path, content string) store.Edit {
		e := Put(path, content)
		e.Author, e.Subject = author, path+"="+content
		return e
	}
	s.noErrors(s.batch(b, by(Author, "x", "ada"), by(bob, "x", "bob"), by(Author, "y", "ada"), by(Author, "x", "ada again"), by(bob, "z", "bob")))
	s.want(s.fetch(s.remote.Branch("main")), "first", "1", "x", "ada again", "y", "ada", "z", "bob")
	var got []string
	for _, c := range s.remote.History("main") {
		got = append(got, c.Author.Name+": "+strings.Join(strings.Fields(c.Message), " "))
	}
	slices.Reverse(got)
	want := []string{"Ada: claim: put first", "Ada: 2 changes - x=ada - y=ada", "Bob: 2 changes - x=bob - z=bob", "Ada: x=ada again"}
	if !slices.Equal(got, want) {
		s.Errorf("history %q, want %q", got, want)
	}
}

func (s *suite) failingEdit() {
	b := s.remote.Branch("main")
	s.update(b, Put("there", "1"))
	broken := errors.New("broken")
	fail := store.Edit{Author: Author, Subject: "fail", Apply: func(t *store.Tree) error {
		return errors.Join(t.Write("there", []byte("2")), t.Write("new/file", nil), t.Remove("there"), broken)
	}}
	errs := s.batch(b, Put("a", "1"), fail, Put("b", "1"))
	if errs[0] != nil || !errors.Is(errs[1], broken) || errs[2] != nil {
		s.Errorf("%v", errs)
	}
	s.want(s.fetch(s.remote.Branch("main")), "a", "1", "b", "1", "first", "1", "there", "1")
	if strings.Contains(s.remote.History("main")[0].Message, "fail") {
		s.Error("it is in the message")
	}

	for _, path := range []string{"", "/a", "a/", "a//b", ".", "../a", "a/..", ".git/config", "a/.GIT", "a/.git ", "a/git~1", "a\x00b", "a\nb", "a\\b", "\xff", ".g\u200cit/x", strings.Repeat("x", 300)} {
		if _, err := b.Update(s.ctx, Put(path, "1")); !errors.Is(err, store.ErrPath) {
			s.Errorf("write %q: %v", path, err)
		}
	}
	for _, path := range []string{"a/below", "a/b/c"} {
		if _, err := b.Update(s.ctx, Put(path, "1")); !errors.Is(err, store.ErrPath) {
			s.Errorf("write below a file: %v", err)
		}
	}
	s.update(b, Put("folder/f", "1"))
	if _, err := b.Update(s.ctx, Put("folder", "1")); !errors.Is(err, store.ErrPath) {
		s.Errorf("write over a folder: %v", err)
	}
	for _, path := range []string{"absent", "folder", "a/below", ""} {
		if _, err := b.Update(s.ctx, remove(path)); !errors.Is(err, store.ErrNotExist) {
			s.Errorf("remove %q: %v", path, err)
		}
	}
	if _, err := b.Update(s.ctx, Put("large", strings.Repeat("x", store.MaxFile+1))); !errors.Is(err, store.ErrTooLarge) {
		s.Errorf("write too much: %v", err)
	}
}

func (s *suite) givenUp() {
	b := s.remote.Branch("main")
	ctx, cancel := context.WithCancel(s.ctx)
	release, running := make(chan struct{}), make(chan struct{})
	slow := Put("slow", "1")
	apply := slow.Apply
	slow.Apply = func(t *store.Tree) error { close(running); <-release; return apply(t) }
	done := make(chan error)
	go func() { _, err := b.Update(ctx, slow); done <- err }()
	<-running
	other := &queuedContext{Context: s.ctx, queued: make(chan struct{})}
	go func() { _, err := b.Update(other, Put("other", "1")); done <- err }()
	<-other.queued
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		s.Errorf("who gave up got %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		s.Errorf("the other one got %v", err)
	}
	s.want(s.fetch(s.remote.Branch("main")), "other", "1", "slow", "1")

	if _, err := b.Update(ctx, Put("late", "1")); !errors.Is(err, context.Canceled) {
		s.Errorf("late: %v", err)
	}
	if _, err := b.Fetch(ctx); err == nil {
		s.Error("fetch with an ended context")
	}
}

func (s *suite) contend() {
	const writers, goroutines, edits = 3, 2, 6
	var all sync.WaitGroup
	for w := range writers {
		b := s.remote.Branch("main")
		// The same commit made by two would be both's.
		edit := increment("counter")
		edit.Author.Name = fmt.Sprint("writer ", w)
		for g := range goroutines {
			all.Go(func() {
				for i := range edits {
					if _, err := b.Update(s.ctx, edit); err != nil {
						s.Error(err)
					}
					path := fmt.Sprintf("ns/%d-%d-%d", w, g, i)
					if snap, err := b.Update(s.ctx, Put(path, "1")); err != nil {
						s.Error(err)
					} else if _, ok := snap.Entry(path); !ok {
						s.Errorf("%s is not in the tree that it was acknowledged with", path)
					}
				}
			})
		}
	}
	all.Wait()
	snap := s.fetch(s.remote.Branch("main"))
	if data, _ := snap.Read("counter"); string(data) != fmt.Sprint(writers*goroutines*edits) {
		s.Errorf("counter is %s", data)
	}
	if got := snap.Files(); got != writers*goroutines*edits+1 {
		s.Errorf("%d files", got)
	}
}

func (s *suite) rejected() {
	b := s.remote.Branch("main")
	head := s.update(b, Put("x", "1")).Head()
	s.remote.Reject("bad", "bad files are not wanted here")
	_, err := b.Update(s.ctx, Put("bad", "1"))
	if !errors.Is(err, store.ErrRejected) || !strings.Contains(err.Error(), "bad files are not wanted here") {
		s.Errorf("got %v", err)
	}
	if b.Snapshot().Head() != head || s.remote.Pushes() != 1 {
		s.Errorf("it took effect")
	}
	s.want(s.update(b, Put("good", "1")), "good", "1", "x", "1")
	s.remote.Reject("", "")
	s.want(s.update(b, Put("bad", "1")), "bad", "1", "good", "1", "x", "1")
}

func (s *suite) rejectedInBatch() {
	b := s.remote.Branch("main")
	s.remote.Reject("ns/bad", "no")
	errs := s.batch(b, Put("ns/a", "1"), Put("ns/b", "1"), Put("ns/bad", "1"), Put("ns/c", "1"), Put("ns/d", "1"))
	if !errors.Is(errs[2], store.ErrRejected) {
		s.Errorf("the one at fault got %v", errs[2])
	}
	errs[2] = nil
	s.noErrors(errs)
	s.want(s.fetch(s.remote.Branch("main")), "first", "1", "ns/a", "1", "ns/b", "1", "ns/c", "1", "ns/d", "1")
}
