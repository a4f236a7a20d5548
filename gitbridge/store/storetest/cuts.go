package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"gitbind.dev/gitbridge/store"
)

func noEdit(subject string) store.Edit {
	return store.Edit{Author: Author, Subject: subject, Apply: func(*store.Tree) error { return nil }}
}

func (s *suite) cut() {
	writer, reader := s.remote.Branch("status"), s.remote.Branch("status")
	var old *store.Snapshot
	for i := range 5 {
		old = s.update(writer, Put(fmt.Sprint("ns/", i), "1"))
	}
	s.fetch(reader)
	e := increment("sequence")
	e.Subject, e.Trailers = "status: cut history", []store.Trailer{{Key: "Reason", Value: "length"}}
	cut, err := writer.Cut(s.ctx, e)
	if err != nil {
		s.Fatal(err)
	}
	want := []string{"ns/0", "1", "ns/1", "1", "ns/2", "1", "ns/3", "1", "ns/4", "1", "sequence", "1"}
	s.want(cut, want...)
	if history := s.remote.History("status"); len(history) != 1 || history[0].Hash != cut.Head() || history[0].Message != "status: cut history\n\nReason: length\n" {
		s.Errorf("history %+v", history)
	}

	seen := s.fetch(reader)
	s.want(seen, want...)
	for c := range store.Diff(old, seen, "") {
		if c.Path != "sequence" {
			s.Errorf("%s changed for a reader", c.Path)
		}
	}
	for _, b := range []store.Branch{reader, writer, s.remote.Branch("status")} {
		commits, descends, err := b.Log(s.ctx, old.Head(), cut.Head())
		if err != nil || descends || len(commits) != 1 || commits[0].Hash != cut.Head() {
			s.Errorf("log: %v, %v, %v", commits, descends, err)
		}
	}
	// Both go on.
	s.remote.Collect()
	s.update(writer, Put("ns/0", "2"))
	s.update(reader, Put("ns/1", "2"))
	s.want(s.fetch(writer), "ns/0", "2", "ns/1", "2", "ns/2", "1", "ns/3", "1", "ns/4", "1", "sequence", "1")

	// A cut of one commit that changes nothing is a cut all the same, and one of
	// nothing is none.
	if cut, err = writer.Cut(s.ctx, noEdit("cut")); err != nil || len(s.remote.History("status")) != 1 {
		s.Errorf("a cut without a change: %v", err)
	}
	none, err := s.remote.Branch("none").Cut(s.ctx, noEdit("cut"))
	if err != nil || none.Head() != "" {
		s.Errorf("a cut of nothing: %v, %v", none.Head(), err)
	}
	failed := errors.New("failed")
	if _, err := writer.Cut(s.ctx, store.Edit{Apply: func(*store.Tree) error { return failed }}); !errors.Is(err, failed) || writer.Snapshot().Head() != cut.Head() {
		s.Errorf("a cut that fails: %v", err)
	}
}

// cutContended cuts while others write: what they were told is there remains.
func (s *suite) cutContended() {
	const writers, edits = 2, 6
	s.update(s.remote.Branch("status"), Put("first", "1"))
	var all sync.WaitGroup
	for w := range writers {
		b := s.remote.Branch("status")
		all.Go(func() {
			for i := range edits {
				var err error
				if i%3 == 2 {
					_, err = b.Cut(s.ctx, increment(fmt.Sprint("counter", w)))
				} else {
					_, err = b.Update(s.ctx, increment(fmt.Sprint("counter", w)))
				}
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.want(s.fetch(s.remote.Branch("status")), "counter0", "6", "counter1", "6", "first", "1")

	// Edits that wait behind a cut are no part of it.
	b := s.remote.Branch("status")
	running, release := make(chan struct{}), make(chan struct{})
	slow := Put("slow", "1")
	apply := slow.Apply
	slow.Apply = func(t *store.Tree) error {
		select {
		case <-running:
		default:
			close(running)
		}
		<-release
		return apply(t)
	}
	all.Go(func() {
		if _, err := b.Update(s.ctx, slow); err != nil {
			s.Error(err)
		}
	})
	<-running
	wait := func(do func(ctx *queuedContext) error) {
		ctx := &queuedContext{Context: s.ctx, queued: make(chan struct{})}
		all.Go(func() {
			if err := do(ctx); err != nil {
				s.Error(err)
			}
		})
		<-ctx.queued
	}
	wait(func(ctx *queuedContext) error { _, err := b.Update(ctx, Put("before", "1")); return err })
	wait(func(ctx *queuedContext) error { _, err := b.Cut(ctx, noEdit("cut")); return err })
	wait(func(ctx *queuedContext) error { _, err := b.Update(ctx, Put("after", "1")); return err })
	close(release)
	all.Wait()
	var subjects []string
	for _, c := range s.remote.History("status") {
		subjects = append(subjects, strings.TrimSpace(c.Message))
	}
	if got := strings.Join(subjects, ", "); got != "claim: put after, cut" {
		s.Errorf("history: %s", got)
	}
	s.want(s.fetch(s.remote.Branch("status")), "after", "1", "before", "1", "counter0", "6", "counter1", "6", "first", "1", "slow", "1")
}

func (s *suite) cutBroken() {
	b, other := s.remote.Branch("status"), s.remote.Branch("status")
	s.update(b, increment("counter"))
	s.remote.LoseAnswers(1, nil)
	snap, err := b.Cut(s.ctx, increment("counter"))
	if err != nil {
		s.Fatal(err)
	}
	s.want(snap, "counter", "2")
	s.remote.LoseAnswers(1, func() { s.update(other, Put("other", "1")) })
	if snap, err = b.Cut(s.ctx, increment("counter")); err != nil {
		s.Fatal(err)
	}
	s.want(snap, "counter", "3", "other", "1")
	if n := len(s.remote.History("status")); n != 2 {
		s.Errorf("%d commits", n)
	}
}
