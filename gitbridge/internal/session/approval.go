package session

import (
	"context"

	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// Approve takes a commit of main for a new begin: nothing that it lacks is
// deleted, all that it has is applied.
func (s *Session) Approve(ctx context.Context, commit store.Hash) error {
	s.following.Lock()
	defer s.following.Unlock()
	s.approved = commit
	if commit == "" || s.seen == nil || s.seen.Head() != commit || !s.View().Held {
		return nil
	}
	return s.accept(ctx, s.seen)
}

// IsApproved reports whether an approval of main was acted on, or is of no use:
// main is followed, and has that commit.
func (s *Session) IsApproved(ctx context.Context, commit store.Hash) (bool, error) {
	view := s.View()
	if view.Main == nil || view.Held {
		return false, nil
	}
	_, in, err := s.options.Main.Log(ctx, commit, view.Main.Head())
	return in, err
}

// ApproveRemovals lets go what is held and what main lacked already at a commit.
// Done says that nothing is left of what was approved.
func (s *Session) ApproveRemovals(ctx context.Context, commit store.Hash) (done bool, err error) {
	view := s.View()
	if commit == "" || view.Main == nil || view.Held {
		return false, nil
	}
	// Where it is further back than is read, what was held at it can be approved.
	if _, in, err := s.options.Main.Log(ctx, commit, view.Main.Head()); store.LastingLimit(err) == nil && (err != nil || !in) {
		return false, err
	}
	return s.Removals.approve(ctx, guard.Approval{Commit: string(commit)})
}

func (r *Removals) approve(ctx context.Context, a guard.Approval) (done bool, err error) {
	lineage := guard.NewLineage(r.branch.Ask, a.Commit, nil)
	for path, held := range r.held() {
		if yes, err := a.CoversHeld(ctx, held.Verdict, lineage); store.LastingLimit(err) != nil {
			// It is in the way of no other, and can be approved by its own commit.
			continue
		} else if err != nil {
			return false, err
		} else if yes {
			r.letGo(path, held.Verdict)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.all {
		if known.approvedHere {
			return false, nil
		}
	}
	return true, nil
}

// letGo lets a removal pass that was approved as it was held.
func (r *Removals) letGo(path string, as guard.Verdict) {
	r.mu.Lock()
	known := r.all[path]
	if known == nil || known.Commit != as.Commit || !known.IsHeld() {
		r.mu.Unlock()
		return
	}
	known.Verdict, known.approvedHere = guard.Verdict{Commit: as.Commit, Approved: true}, true
	r.mu.Unlock()
	r.enqueue(path, true)
}
