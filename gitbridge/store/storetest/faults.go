package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"gitbind.dev/gitbridge/store"
)

func (s *suite) lostAnswer() {
	b := s.remote.Branch("main")
	for i, want := range []string{"1", "2", "3"} {
		s.remote.LoseAnswers(1, nil)
		snap := s.update(b, increment("counter"))
		if data, _ := snap.Read("counter"); string(data) != want {
			s.Fatalf("counter is %s, want %s", data, want)
		}
		if n := len(s.remote.History("main")); n != i+1 {
			s.Fatalf("%d commits after %d edits", n, i+1)
		}
	}
	s.want(s.fetch(s.remote.Branch("main")), "counter", "3")
}

func (s *suite) lostAnswerBuried() {
	b, other := s.remote.Branch("main"), s.remote.Branch("main")
	s.update(b, increment("counter"))
	s.remote.LoseAnswers(1, func() {
		s.update(other, Put("other", "1"))
		s.update(other, Put("other", "2"))
	})
	s.want(s.update(b, increment("counter")), "counter", "2", "other", "2")
	if n := len(s.remote.History("main")); n != 4 {
		s.Errorf("%d commits", n)
	}
}

func (s *suite) broken() {
	b := s.remote.Branch("main")
	s.update(b, Put("x", "1"))

	s.remote.Break(1000)
	if _, err := b.Fetch(s.ctx); err == nil {
		s.Error("fetch without a connection")
	}
	_, err := b.Update(s.ctx, increment("counter"))
	if err == nil || errors.Is(err, store.ErrRejected) || errors.Is(err, store.ErrConflict) {
		s.Errorf("update without a connection: %v", err)
	}
	s.remote.Break(0)
	s.want(s.update(b, increment("counter")), "counter", "1", "x", "1")

	// It tries again by itself when it is clear that nothing happened.
	s.remote.Break(1)
	s.want(s.update(b, increment("counter")), "counter", "2", "x", "1")
	if n := len(s.remote.History("main")); n != 3 {
		s.Errorf("%d commits", n)
	}
}

// Nothing that was acknowledged is lost, and nothing is done twice, whatever
// breaks.
func (s *suite) chaos() {
	const writers, edits = 3, 8
	var all sync.WaitGroup
	var done, unknown atomic.Int64
	for w := range writers {
		b := s.remote.Branch("main")
		// The same change by the same person in the same second would be the
		// same commit, and so be everybody's.
		edit := increment("counter")
		edit.Author.Name = fmt.Sprint("writer ", w)
		all.Go(func() {
			for i := range edits {
				switch i % 4 {
				case 1:
					s.remote.LoseAnswers(1, nil)
				case 2:
					s.remote.Break(2)
				case 3:
					s.remote.Break(8)
				}
				switch _, err := b.Update(s.ctx, edit); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, store.ErrRejected):
					s.Error(err)
				default:
					unknown.Add(1)
				}
			}
		})
	}
	all.Wait()
	s.remote.LoseAnswers(0, nil)
	s.remote.Break(0)
	var counter int64
	data, err := s.fetch(s.remote.Branch("main")).Read("counter")
	if err != nil {
		s.Fatal(err)
	}
	if _, err := fmt.Sscan(string(data), &counter); err != nil {
		s.Fatal(err)
	}
	s.Logf("%d done, %d of unknown outcome, counter is %d", done.Load(), unknown.Load(), counter)
	if counter < done.Load() || counter > done.Load()+unknown.Load() {
		s.Errorf("counter is %d after %d acknowledged edits and %d of unknown outcome", counter, done.Load(), unknown.Load())
	}
	if n := len(s.remote.History("main")); int64(n) != counter {
		s.Errorf("%d commits made a counter of %d", n, counter)
	}
}

func (s *suite) fetchTip() {
	writer, reader := s.remote.Branch("main"), s.remote.Branch("main")
	tip := func(want store.Hash, hint store.Hash) {
		s.Helper()
		snap, err := reader.FetchTip(s.ctx, hint)
		if err != nil || snap.Head() != want || reader.Snapshot().Head() != want {
			s.Fatalf("hint %q: at %q, %v; want %q", hint.Short(), snap.Head().Short(), err, want.Short())
		}
	}
	first := s.update(writer, Put("x", "1")).Head()
	tip(first, first)
	second := s.update(writer, Put("x", "2")).Head()
	tip(second, second)
	tip(second, first)
	tip(second, store.Hash(strings.Repeat("1", 40)))
	tip(second, "")
	third := s.update(writer, Put("x", "3")).Head()
	tip(third, first)
	fourth := s.update(writer, Put("x", "4")).Head()
	fifth := s.update(writer, Put("x", "5")).Head()
	// The remote may still give what was the head a moment ago.
	if snap, err := reader.FetchTip(s.ctx, fourth); err != nil || snap.Head() != fourth && snap.Head() != fifth {
		s.Errorf("at %s, %v", snap.Head(), err)
	}
	tip(fifth, fifth)
	s.update(writer, Put("x", "6"))
	seventh := s.update(writer, Put("x", "7")).Head()
	tip(seventh, seventh)
	s.remote.Force("main", second)
	tip(second, second)
	s.want(reader.Snapshot(), "x", "2")
}

func (s *suite) forced() {
	writer, reader := s.remote.Branch("main"), s.remote.Branch("main")
	first := s.update(writer, Put("x", "1"))
	s.update(writer, Put("y", "1"))
	s.fetch(reader)
	s.remote.Force("main", first.Head())
	s.remote.Collect()
	s.want(s.fetch(reader), "x", "1")
	// The writer does not know yet, and must not bring back what is gone.
	s.want(s.update(writer, Put("z", "1")), "x", "1", "z", "1")
	s.want(s.fetch(reader), "x", "1", "z", "1")
}

func (s *suite) since() {
	writer, other := s.remote.Branch("main"), s.remote.Branch("main")
	put := func(b store.Branch, path string, since store.Hash) error {
		e := Put(path, "1")
		e.Since = since
		_, err := b.Update(s.ctx, e)
		return err
	}
	first := s.update(writer, Put("first", "1")).Head()
	second := s.update(writer, Put("second", "1")).Head()
	s.fetch(other)
	third := s.update(writer, Put("third", "1")).Head()
	for _, err := range []error{put(other, "a", second), put(other, "b", first), put(s.remote.Branch("main"), "c", first), put(writer, "d", third)} {
		if err != nil {
			s.Errorf("on what goes on from there: %v", err)
		}
	}
	s.want(s.fetch(writer), "a", "1", "b", "1", "c", "1", "d", "1", "first", "1", "second", "1", "third", "1")
	// The remote was restored, and neither knows.
	s.remote.Force("main", first)
	var all sync.WaitGroup
	for path, since := range map[string]store.Hash{"x": third, "y": second, "z": first, "zz": ""} {
		all.Go(func() {
			err := put(writer, path, since)
			if refused := errors.Is(err, store.ErrRewritten); refused != (path < "z") || err != nil && !refused {
				s.Errorf("%s, decided on %q: %v", path, since, err)
			}
		})
	}
	all.Wait()
	if err := put(s.remote.Branch("main"), "x", second); !errors.Is(err, store.ErrRewritten) {
		s.Errorf("by who knows nothing: %v", err)
	}
	s.want(s.fetch(other), "first", "1", "z", "1", "zz", "1")
	s.remote.Force("main", "")
	if err := put(writer, "x", first); !errors.Is(err, store.ErrRewritten) {
		s.Errorf("on a branch that is gone: %v", err)
	}
}

func (s *suite) gone() {
	writer, reader := s.remote.Branch("main"), s.remote.Branch("main")
	s.update(s.remote.Branch("other"), Put("x", "1"))
	s.update(writer, Put("x", "1"))
	s.fetch(reader)
	s.remote.Force("main", "")
	if snap := s.fetch(reader); snap.Head() != "" {
		s.Errorf("head %s", snap.Head())
	}
	s.want(s.update(writer, Put("y", "1")), "y", "1")
	s.want(s.fetch(reader), "y", "1")
}

func (s *suite) log() {
	writer, reader := s.remote.Branch("main"), s.remote.Branch("main")
	var heads []store.Hash
	for _, content := range []string{"1", "2", "3", "4"} {
		heads = append(heads, s.update(writer, Put("x", content)).Head())
		if len(heads) == 2 {
			s.fetch(reader)
		}
	}
	s.fetch(reader)
	check := func(b store.Branch, since, to store.Hash, descends bool, want ...store.Hash) {
		s.Helper()
		commits, got, err := b.Log(s.ctx, since, to)
		if err != nil {
			s.Fatal(err)
		}
		var hashes []store.Hash
		for _, c := range commits {
			hashes = append(hashes, c.Hash)
			if c.Author != Author || c.Message != "claim: put x\n" || c.Time.IsZero() {
				s.Errorf("commit %+v", c)
			}
		}
		if got != descends || strings.Join(strs(hashes), " ") != strings.Join(strs(want), " ") {
			s.Errorf("since %q: %v, descends: %v; want %v", since.Short(), hashes, got, want)
		}
	}
	fresh := s.remote.Branch("main")
	s.fetch(fresh)
	for _, b := range []store.Branch{writer, reader, fresh} {
		for range 2 {
			check(b, heads[3], heads[3], true)
			check(b, heads[2], heads[3], true, heads[3])
			check(b, heads[0], heads[3], true, heads[3], heads[2], heads[1])
			check(b, "", heads[3], false, heads[3], heads[2], heads[1], heads[0])
		}
	}
	s.remote.Force("main", heads[1])
	s.fetch(reader)
	check(reader, heads[3], heads[1], false)
	late := s.remote.Branch("main")
	s.fetch(late)
	check(late, heads[3], heads[1], false)
	forked := s.update(s.remote.Branch("main"), Put("x", "forked")).Head()
	s.fetch(reader)
	check(reader, heads[3], forked, false, forked)
	check(reader, heads[1], forked, true, forked)
	s.fetch(fresh)
	check(fresh, heads[1], forked, true, forked)
	check(fresh, heads[0], forked, true, forked, heads[1])
	// A commit that the remote never had.
	check(fresh, store.Hash(strings.Repeat("1", 40)), forked, false, forked, heads[1], heads[0])
}

func strs(hashes []store.Hash) (all []string) {
	for _, h := range hashes {
		all = append(all, string(h))
	}
	return all
}
