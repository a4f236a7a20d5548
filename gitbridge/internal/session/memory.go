package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"gitbind.dev/gitbridge/claim"
	"gitbind.dev/gitbridge/internal/answered"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// lazily is how long an accepted commit may be kept in mind only, as long as
// nothing depends on it.
const lazily = time.Minute

// Accept writes down a commit of main, or a later one, before anything is done
// that cannot be undone.
func (s *Session) Accept(ctx context.Context, g answered.Generation) error {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	if s.remembered >= g {
		return nil
	}
	view := s.View()
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
	m := Memory{Accepted: accepted, Epoch: s.epoch}
	if m == s.memory {
		return nil
	}
	if err := s.options.Remember(ctx, m); err != nil {
		return err
	}
	s.memory = m
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
	remembered := s.Memory().Epoch
	s.lost = remembered != "" && remembered != observed.Epoch
	s.open(cmp.Or(remembered, observed.Epoch, newEpoch()), observed)
	close(s.opened)
	return nil
}

// open says in which epoch to write. It is written down with the next commit of
// main that is accepted.
func (s *Session) open(epoch string, observed claim.Observed) {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	s.epoch, s.remembered = epoch, 0
	s.Status.Open(epoch, observed)
}

func newEpoch() string { return rand.Text()[:10] }

// compareStatus finds a branch status that somebody else changed. When it is an
// older one, such as from a backup, all answers are given again; when it is
// another one, nothing is known any more of what was applied.
func (s *Session) compareStatus() {
	s.following.Lock()
	defer s.following.Unlock()
	if s.lost || !s.Status.IsForeign() {
		return
	}
	got := statusbranch.Observed(s.Status.Snapshot())
	if got.Epoch != s.Status.Epoch() {
		s.lost = true
		if s.seen != nil {
			s.hold(judge(s.seen, "", true, true))
		}
		return
	}
	s.Status.Open(got.Epoch, got)
	s.enqueueAll(s.View().Main)
}
