package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/progress"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// lazily is how long an accepted commit may be kept in mind only, as long as
// nothing depends on it.
const lazily = time.Minute

// Accept writes down a commit of main, or a later one, before anything is done
// that cannot be undone.
func (s *Session) Accept(ctx context.Context, g progress.Generation) error {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	s.mu.Lock()
	view, changes := s.view, s.changes
	s.mu.Unlock()
	if s.remembered >= g && s.saved == changes {
		return nil
	}
	if err := s.write(ctx, view.Main.Head()); err != nil {
		return err
	}
	s.remembered = view.Generation
	return nil
}

func (s *Session) remember(ctx context.Context, accepted store.Hash) error {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	return s.write(ctx, accepted)
}

func (s *Session) write(ctx context.Context, accepted store.Hash) error {
	s.mu.Lock()
	changes := s.changes
	removals := s.limits.Recent(s.passed, s.options.Now())
	s.mu.Unlock()
	m := Memory{Accepted: accepted, Epoch: s.epoch, Sequence: s.Status.Sequence(), Removals: removals}
	if m.Accepted == s.memory.Accepted && m.Epoch == s.memory.Epoch && changes == s.saved {
		return nil
	}
	if err := s.options.Remember(ctx, m); err != nil {
		return err
	}
	s.memory, s.saved = m, changes
	return nil
}

func (s *Session) rememberLater() {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	if s.later == nil {
		s.later = time.AfterFunc(lazily, func() {
			s.remembering.Lock()
			s.later = nil
			s.remembering.Unlock()
			s.acceptNewest(context.Background())
		})
	}
}

// acceptNewest writes down how far main was followed. Without it the next
// process looks at more of main's history, so an error is of no consequence.
func (s *Session) acceptNewest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if view := s.View(); view.Main != nil && !view.Held {
		_ = s.Accept(ctx, view.Generation)
	}
}

func (s *Session) close(ctx context.Context) {
	s.remembering.Lock()
	if s.later != nil {
		s.later.Stop()
	}
	s.remembering.Unlock()
	s.acceptNewest(ctx)
}

// Memory is what is written down.
func (s *Session) Memory() Memory {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	return s.memory
}

// onStatus looks at the branch status: is it the one that was written here?
func (s *Session) onStatus(new *store.Snapshot) error {
	select {
	case <-s.opened:
		s.compareStatus()
		return nil
	default:
	}
	s.following.Lock()
	defer s.following.Unlock()
	observed := statusbranch.Observed(new)
	remembered := s.Memory()
	s.lost = remembered.Epoch != "" && remembered.Epoch != observed.Epoch
	if remembered.Epoch == "" && observed.Epoch != "" {
		s.mu.Lock()
		s.anew, s.stalled = true, &Hold{"Checking", "this ClusterBinding is new, but its repository was answered before: nothing is done until it is known whether all services are there"}
		s.mu.Unlock()
	}
	reached := int64(0)
	if !s.lost && observed.Sequence < remembered.Sequence {
		// It was set back to a backup while nobody looked. What was given out
		// since is not known, and must not be given out again.
		reached = remembered.Sequence + leap
	}
	s.open(cmp.Or(remembered.Epoch, observed.Epoch, newEpoch()), observed, reached)
	close(s.opened)
	return nil
}

// leap is more than the commits that are made between two times at which the
// sequence is written down.
const leap = 1 << 20

// open says in which epoch to write. It is written down with the next commit of
// main that is accepted.
func (s *Session) open(epoch string, observed contract.Observed, reached int64) {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	s.epoch, s.remembered = epoch, 0
	s.Status.Open(epoch, observed, reached)
}

func newEpoch() string { return rand.Text()[:10] }

// compareStatus finds a branch status that somebody else changed. When it is an
// older one, such as from a backup, or has what the bridge wrote last
// that was in this one's place, all answers are given again; when it is another
// one, nothing is known any more of what was applied.
func (s *Session) compareStatus() {
	s.following.Lock()
	defer s.following.Unlock()
	was := s.lost
	switch set := s.lookAtStatus(); {
	case set:
		s.options.Began()
		s.enqueueAll(s.View().Main)
	case s.lost && !was && s.seen != nil:
		s.hold(judge(s.seen, "", true, true))
	}
}

// lookAtStatus finds out whether the branch is lost, or set to another commit
// than the last that is known here. The caller holds s.following.
func (s *Session) lookAtStatus() (set bool) {
	if s.lost || !s.Status.IsForeign() {
		return false
	}
	got := statusbranch.Observed(s.Status.Snapshot())
	if got.Epoch != s.Status.Epoch() {
		s.lost = true
		return false
	}
	s.Status.Open(got.Epoch, got, 0)
	return true
}
