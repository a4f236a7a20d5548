package session

import (
	"cmp"
	"crypto/rand"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

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
	found, last := statusbranch.Observed(new), s.Checkpoints.Last()
	v := guard.JudgeStatus(guard.Observed{Epoch: last.Epoch, Sequence: last.Sequence}, guard.Observed{Epoch: found.Epoch, Sequence: found.Sequence})
	s.statusLost = v.Reason == guard.StatusMissing || v.Reason == guard.StatusReplaced
	if last.Epoch == "" && found.Epoch != "" {
		s.Stops.check()
	}
	reached := int64(0)
	if v.Reason == guard.StatusBehind {
		// It was set back to a backup while no process looked. What was given out
		// since is not known, and must not be given out again.
		reached = last.Sequence + leap
	}
	s.open(cmp.Or(last.Epoch, found.Epoch, newEpoch()), found, reached)
	close(s.opened)
	return nil
}

// leap is more than the commits that are made between two times at which the
// sequence is saved.
const leap = 1 << 20

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
func (s *Session) compareStatus() {
	s.following.Lock()
	defer s.following.Unlock()
	was := s.statusLost
	switch set := s.lookAtStatus(); {
	case set:
		s.options.Began()
		s.enqueueAll(s.View().Main)
	case s.statusLost && !was && s.seen != nil:
		v := guard.Main{Head: string(s.seen.Head()), StatusLost: true}.Judge()
		v.Message = wordsOfMain(v, "")
		s.hold(v)
	}
}

// CheckStatus is statusbranch.ErrForeign where the newest branch status is not the one that was
// written here, and has that told.
func (s *Session) CheckStatus() error {
	if !s.Status.IsForeign() {
		return nil
	}
	s.compareStatus()
	return statusbranch.ErrForeign
}

// lookAtStatus finds out whether the branch is lost, or set to another commit
// than the last that is known here. The caller holds s.following.
func (s *Session) lookAtStatus() (set bool) {
	if s.statusLost || !s.Status.IsForeign() {
		return false
	}
	got := statusbranch.Observed(s.Status.Snapshot())
	if got.Epoch != s.Status.Epoch() {
		s.statusLost = true
		return false
	}
	s.Status.Open(got.Epoch, got, 0)
	return true
}
