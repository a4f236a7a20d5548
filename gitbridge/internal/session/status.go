package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// onStatus looks at the branch status: is it the one that was written here?
func (s *Session) onStatus(ctx context.Context, new *store.Snapshot) error {
	select {
	case <-s.opened:
		return s.compareStatus(ctx)
	default:
	}
	s.following.Lock()
	defer s.following.Unlock()
	last := s.Checkpoints.Last()
	found, v := judgeStatus(last, new)
	if v.IsHeld() {
		// What came may be older than what is saved: the bridge before may have pushed, and
		// saved that, while it was on its way.
		newest, err := s.options.Status.Fetch(ctx)
		if err != nil {
			return fmt.Errorf("look at status again: %w", err)
		}
		found, v = judgeStatus(last, newest)
	}
	s.statusLost = v.Reason == guard.StatusMissing || v.Reason == guard.StatusReplaced
	if last.Epoch == "" && found.Epoch != "" {
		s.Stops.check()
	}
	reached := int64(0)
	if v.Reason == guard.StatusBehind {
		// It was set back to a backup while no process looked.
		var err error
		if reached, err = s.Checkpoints.leap(ctx, 0); err != nil {
			return err
		}
		s.setBack.Add(1)
	}
	s.open(cmp.Or(last.Epoch, found.Epoch, newEpoch()), found, reached)
	close(s.opened)
	return nil
}

// judgeStatus decides whether a state of status continues what was saved, and says what it says
// of itself.
func judgeStatus(last Checkpoint, status *store.Snapshot) (contract.Observed, guard.Verdict) {
	found := statusbranch.Observed(status)
	return found, guard.JudgeStatus(guard.Observed{Epoch: last.Epoch, Sequence: last.Sequence}, guard.Observed{Epoch: found.Epoch, Sequence: found.Sequence})
}

// open says in which epoch to write.
func (s *Session) open(epoch string, observed contract.Observed, reached int64) {
	s.Checkpoints.open(epoch)
	s.Status.Open(epoch, observed, reached)
}

func newEpoch() string { return rand.Text()[:10] }

// compareStatus finds a branch status that somebody else changed. When it is an
// older one, such as from a backup, or has what the bridge wrote last
// that was in this one's place, all answers are given again; when it is another
// one, nothing is known any more of what was applied.
func (s *Session) compareStatus(ctx context.Context) error {
	s.following.Lock()
	defer s.following.Unlock()
	was := s.statusLost
	switch set, err := s.lookAtStatus(ctx); {
	case err != nil:
		return err
	case set:
		s.options.Began()
		s.answerAgain()
		if was && s.seen != nil {
			return s.accept(ctx, s.seen)
		}
	case s.statusLost && !was && s.seen != nil:
		v := guard.Main{Head: string(s.seen.Head()), StatusLost: true}.Judge()
		v.Message = wordsOfMain(v, "")
		s.hold(v)
	}
	return nil
}

// answerAgain has all of the accepted commit answered again, as status lacks answers that it
// had. The caller holds s.following.
func (s *Session) answerAgain() {
	s.mainAnswer.wake()
	view := s.View()
	if view.Main == nil || view.Held {
		// Which head these answer is known when one is accepted: see take.
		s.enqueueAll(view.Main)
		return
	}
	paths := slices.Collect(s.Answers.paths(view.Main, contract.Root))
	s.mu.Lock()
	known := s.objectsKnown
	s.view.Generation = s.Status.Advance(view.Main.Head(), append(paths, unnamed))
	s.mu.Unlock()
	for _, path := range paths {
		s.options.Enqueue(path, false)
	}
	if known {
		s.lookAtUnnamed(view.Main)
	}
}

// CheckStatus is statusbranch.ErrForeign where the newest branch status is not the one that was
// written here, and has that told. It asks the Git host where it is not known whether the last
// answer to a path of main landed.
func (s *Session) CheckStatus(ctx context.Context, path string) error {
	if s.Status.IsDoubtful(contract.StatusPath(path)) {
		if _, err := s.options.Status.Fetch(ctx); err != nil {
			return err
		}
	}
	if !s.Status.IsForeign() {
		return nil
	}
	return cmp.Or(s.compareStatus(ctx), statusbranch.ErrForeign)
}

// lookAtStatus finds out whether the branch is lost, or set to another commit
// than the last that is known here, such as by a mirror of what was lost. The caller
// holds s.following.
func (s *Session) lookAtStatus(ctx context.Context) (set bool, err error) {
	if !s.statusLost && !s.Status.IsForeign() {
		return false, nil
	}
	got := statusbranch.Observed(s.Status.Snapshot())
	if got.Epoch != s.Status.Epoch() {
		s.statusLost = true
		return false, nil
	}
	if !s.statusLost && s.Status.IsLate(got) {
		s.Status.Open(got.Epoch, got, 0)
		return true, nil
	}
	reached, err := s.Checkpoints.leap(ctx, max(got.Sequence, s.Status.Sequence()))
	if err != nil {
		return false, err
	}
	s.Status.Open(got.Epoch, got, reached)
	s.setBack.Add(1)
	s.statusLost = false
	return true, nil
}

// StatusSetBack is how often status was found to be another than was written: set back, or
// given back what it had.
func (s *Session) StatusSetBack() int64 { return s.setBack.Load() }
