package session

import (
	"context"
	"fmt"
	"slices"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/store"
)

func (s *Session) passes() (breaker.Limits, []breaker.Removal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits, slices.Clone(s.passed)
}

// pass notes removals that may be acted on once that is written down. The caller
// holds s.mu.
func (s *Session) pass(more []breaker.Removal) {
	if len(more) == 0 {
		return
	}
	s.passed = s.limits.Recent(append(s.passed, more...), s.options.Now())
	s.changes++
}

// Seen says where a claim was seen whose file main lacks.
type Seen struct {
	// Answered is the commit with its file that was answered, "" for none.
	Answered store.Hash
	// Applied is the commit that its object says it was made from.
	Applied store.Hash
}

// Removal is how the file went at a path that main lacks. Most are known since
// main was looked at. The others are claims that were applied and not answered
// before the process ended.
func (s *Session) Removal(ctx context.Context, path string, seen Seen) (Removal, error) {
	s.mu.Lock()
	known, main, base := s.removals[path], s.view.Main, s.base
	if known != nil {
		defer s.mu.Unlock()
		return *known, nil
	}
	s.mu.Unlock()
	if _, back := main.Entry(path); back {
		return Removal{}, fmt.Errorf("look at %s: main moved", path)
	}
	removed, err := s.wasRemoved(ctx, main.Head(), base, seen)
	if err != nil {
		return Removal{}, err
	}
	j := judged{removals: map[string]*Removal{path: {Removal: *decision.Unproven(string(main.Head()))}}}
	if removed {
		s.judge(&j, main, []string{path}, s.unknown(main), nil)
	}
	s.mu.Lock()
	if s.view.Main != main {
		s.mu.Unlock()
		return Removal{}, fmt.Errorf("look at %s: main moved", path)
	}
	s.removals[path] = j.removals[path]
	s.pass(j.passed)
	s.mu.Unlock()
	s.options.Changed()
	return *j.removals[path], nil
}

// IsRemovalKnown reports whether Removal has its answer ready.
func (s *Session) IsRemovalKnown(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removals[path] != nil
}

// wasRemoved reports whether a commit that was followed removed a file. An
// object's own word counts only since main is followed from here.
func (s *Session) wasRemoved(ctx context.Context, head, base store.Hash, seen Seen) (bool, error) {
	since := seen.Answered
	if since == "" {
		since = seen.Applied
	}
	if since == "" || base == "" {
		return false, nil
	}
	_, descends, err := s.options.Main.Log(ctx, since, head)
	if err != nil || !descends || seen.Answered != "" {
		return descends, err
	}
	_, descends, err = s.options.Main.Log(ctx, base, since)
	return descends, err
}

// WasRequestRemoved reports whether a commit that was followed took away a request
// that was answered as it was in another.
func (s *Session) WasRequestRemoved(ctx context.Context, answered store.Hash) (bool, error) {
	s.mu.Lock()
	head, base := s.view.Main.Head(), s.base
	s.mu.Unlock()
	return s.wasRemoved(ctx, head, base, Seen{Answered: answered})
}

// HoldMoved holds a removal that passed, because the claim seems to be in
// another file now.
func (s *Session) HoldMoved(path, to string) decision.Removal {
	s.mu.Lock()
	r := s.removals[path]
	if r == nil {
		r = &Removal{Removal: decision.Removal{Commit: string(s.view.Main.Head())}}
		s.removals[path] = r
	}
	r.Removal = *decision.Moved(r.Commit, to)
	s.passed = slices.DeleteFunc(s.passed, func(p breaker.Removal) bool { return p.Path == path })
	s.changes++
	out := r.Removal
	s.mu.Unlock()
	s.options.Changed()
	return out
}

// ApproveRemovals lets go what is held and what main lacked already at a commit.
// A file that no commit was seen to remove goes only when just the commit is
// named that its answer names.
//
// Done says that nothing is left of what was approved.
func (s *Session) ApproveRemovals(ctx context.Context, commit store.Hash) (done bool, err error) {
	view := s.View()
	if commit == "" || view.Main == nil || view.Held {
		return false, nil
	}
	if _, in, err := s.options.Main.Log(ctx, commit, view.Main.Head()); err != nil || !in {
		return false, err
	}
	if err := s.approveHeld(ctx, commit); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.removals {
		if r.approvedHere {
			return false, nil
		}
	}
	return true, nil
}

func (s *Session) approveHeld(ctx context.Context, commit store.Hash) error {
	held := s.held()
	followed := s.lineage(commit, nil)
	for path, r := range held {
		yes := r.Commit == string(commit)
		if !yes && r.Reason != contract.NotRemoved {
			var err error
			if yes, err = followed(ctx, store.Hash(r.Commit)); err != nil {
				return err
			}
		}
		if yes {
			s.approveRemoval(path, r)
		}
	}
	return nil
}

// held are the removals that are held.
func (s *Session) held() map[string]Removal {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Removal{}
	for path, r := range s.removals {
		if r.Reason != "" {
			out[path] = *r
		}
	}
	return out
}

func (s *Session) approveRemoval(path string, as Removal) {
	s.mu.Lock()
	r := s.removals[path]
	if r == nil || r.Commit != as.Commit || r.Reason == "" {
		s.mu.Unlock()
		return
	}
	r.Approved, r.approvedHere, r.Reason, r.Message = true, true, "", ""
	s.mu.Unlock()
	s.options.Enqueue(path, true)
}

// heldRemovals says in words what is held, "" for nothing.
func (s *Session) heldRemovals() string {
	held := s.held()
	if len(held) == 0 {
		return ""
	}
	commits := map[string]int{}
	for _, r := range held {
		commits[r.Commit]++
	}
	newest := ""
	if main := s.View().Main; main != nil {
		newest = string(main.Head())
	}
	if len(commits) == 1 {
		for commit := range commits {
			newest = commit
		}
	}
	return fmt.Sprintf("%d services stay though their files are not on main: the answer to each says why. "+
		"To let them go: kubectl gitbind approve --removals %s. To keep them, put their files back", len(held), newest)
}
