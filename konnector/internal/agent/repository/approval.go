package repository

import (
	"context"
	"fmt"
	"time"

	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/store"
)

// ApproveMain takes what a person wrote as the commit from which main counts.
// That is acted on once, when main is there; the same words count again only
// after they were taken away in between.
func (r *Repository) ApproveMain(ctx context.Context, words string) error {
	if last := r.Lineage.last.Load(); last.verdict.IsHeld() && r.Checkpoints.get().isNewApproval(last.head, words) {
		// What is approved is the repository as it is, of which main may be all that was seen.
		if _, err := r.Remote.Status.Fetch(ctx); err != nil && store.LastingLimit(err) == nil {
			return fmt.Errorf("look at status again: %w", err)
		}
	}
	if err := r.Lineage.accepting.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.Lineage.accepting.Release(1)
	c, last := r.Checkpoints.get(), r.Lineage.last.Load()
	head, rewritten := c.Accepted, last.verdict.IsHeld()
	if rewritten {
		head = last.head
	}
	if words == "" && c.Approved.Main != "" {
		r.Checkpoints.note(func(c *Checkpoint) { c.Approved.Main = "" })
	}
	status := r.Remote.Status.Snapshot()
	foreign := r.status.judge(status) != ""
	if !c.isNewApproval(head, words) || !rewritten && !foreign {
		return nil
	}
	now := r.status.observed(status).Observed
	err := r.Checkpoints.decide(ctx, func(c *Checkpoint) {
		c.Approved.Main = words
		if rewritten {
			c.Accepted, c.Begun = head, head
		}
		if foreign {
			c.Observed = now
		}
	})
	if err != nil {
		return err
	}
	if rewritten {
		r.Lineage.begin(head)
	}
	r.tell.recovered()
	r.tell.stateChanged()
	r.Wake()
	return nil
}

// isNewApproval reports whether words approve a head of main, and were not acted on yet.
func (c Checkpoint) isNewApproval(head store.Hash, words string) bool {
	return words == approvable(head) && words != c.Approved.Main
}

// Approve takes what a person wrote as the commit whose removals are right. It must be
// part of main.
func (r *Removals) Approve(ctx context.Context, words string) error {
	done := r.checkpoints.get().Approved.Removals
	if words == "" && done != "" {
		r.checkpoints.note(func(c *Checkpoint) { c.Approved.Removals, c.Approved.RemovalsUpTo = "", time.Time{} })
	}
	if words == "" || words == done {
		return nil
	}
	view, err := r.lockNewest(ctx)
	if err != nil {
		return err
	}
	defer r.unlock()
	if view.Replaced != "" {
		return nil
	}
	part, err := r.lineage.Continues(ctx, store.Hash(words))
	if err != nil || !part && store.Hash(words) != view.Main.Head() {
		return err
	}
	all, err := r.list(ctx, view.Main)
	if err != nil {
		return err
	}
	var upTo time.Time
	for _, w := range all {
		if !w.fileGone && w.Deleted.After(upTo) {
			upTo = w.Deleted
		}
	}
	if err := r.checkpoints.decide(ctx, func(c *Checkpoint) { c.Approved.Removals, c.Approved.RemovalsUpTo = words, upTo }); err != nil {
		return err
	}
	r.relist.Store(true)
	r.tell.recovered()
	r.tell.stateChanged()
	return nil
}

// ApproveUnbinding lets all claims of a binding go, because a person deletes it
// with them; with false, no more.
func (r *Removals) ApproveUnbinding(binding string, yes bool) {
	var was bool
	if yes {
		_, was = r.unbinding.LoadOrStore(binding, true)
	} else {
		_, was = r.unbinding.LoadAndDelete(binding)
	}
	if was == yes {
		return
	}
	r.relist.Store(true)
	r.tell.recovered()
	r.tell.stateChanged()
}

// IsUnbinding reports whether all claims of a binding may go.
func (r *Removals) IsUnbinding(binding string) bool {
	_, yes := r.unbinding.Load(binding)
	return yes
}

// isApproved reports whether a person has approved a removal as one of many.
func (r *Removals) isApproved(ctx context.Context, main *store.Snapshot, w waiting) (bool, error) {
	if r.IsUnbinding(w.Key.Binding) {
		return true, nil
	}
	approval := r.checkpoints.get().Approved.removals()
	if now := r.now(); !w.fileGone && !w.Deleted.After(now) && approval.IsAhead(now, r.limits.Window) {
		// It is forgotten, as it would seem to be right when its time has come. While deletes are
		// ahead, too, this clock is the one that is wrong.
		approval.UpTo = time.Time{}
		r.checkpoints.note(func(c *Checkpoint) { c.Approved.RemovalsUpTo = time.Time{} })
	}
	if !w.fileGone {
		return approval.CoversDelete(w.Deleted), nil
	}
	return approval.CoversFile(ctx, w.Key.Path(), string(w.Commit), string(main.Head()), history{r.lineage.main, r.lineage})
}

// history is what approvals ask about main.
type history struct {
	facts.Main
	*Lineage
}

// Descends is no where there is more history between the two than is read: no approval is known
// to be for what is that far back.
func (h history) Descends(ctx context.Context, since, to string) (descends, konnectorOnly bool, err error) {
	descends, konnectorOnly, err = h.Main.Descends(ctx, since, to)
	if store.LastingLimit(err) != nil {
		return false, false, nil
	}
	return descends, konnectorOnly, err
}
