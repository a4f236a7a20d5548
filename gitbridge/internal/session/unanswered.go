package session

import (
	"context"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/store"
)

// unanswered looks for the claims that status answers, or commits name, and main
// lacks. Those whose removal is not answered yet are returned; what is held
// stays so.
func (r *Removals) unanswered(ctx context.Context, main *store.Snapshot, commits []store.Commit, begin bool, j judged) ([]string, error) {
	lineage := guard.NewLineage(r.branch.Ask, string(main.Head()), facts.Hashes(commits))
	seen, tombstones := map[string]bool{}, map[string]string{}
	var removed []string
	for e := range r.status.Snapshot().List(contract.Root) {
		if _, err := contract.ParsePath(e.Path); err != nil {
			continue
		}
		seen[e.Path] = true
		if _, ok := main.Entry(e.Path); ok {
			continue
		}
		present, err := r.answers.Of(e.Path)
		switch {
		case err != nil:
			// It is not known what it says: nothing is deleted for it.
			j.removals[e.Path] = notRemoved(main.Head())
		case present.Result == contract.Gone:
			r.status.Bury(e.Path, present.Since)
			tombstones[e.Path] = present.Answers.Commit
			delete(seen, e.Path)
		case present.Result == contract.Held && present.Answers.Blob == "":
			j.removals[e.Path] = wasHeld(present)
		case present.Answers.Blob != "":
			switch had, err := lineage.Has(ctx, present.Answers.Commit); {
			case store.LastingLimit(err) != nil:
				j.removals[e.Path] = unknown(main.Head(), err)
			case err != nil:
				return nil, err
			case had:
				removed = append(removed, e.Path)
			default:
				j.removals[e.Path] = notRemoved(main.Head())
			}
		}
	}
	if begin {
		return removed, nil
	}
	at := map[string]int{} // commits, newest first
	for i, c := range commits {
		at[string(c.Hash)] = i
	}
	for i, c := range r.branch.Commits(commits) {
		for _, path := range c.Removed() {
			if _, ok := main.Entry(path); ok || seen[path] {
				continue
			}
			seen[path] = true
			if commit, ok := tombstones[path]; ok {
				if answered, ok := at[commit]; ok && answered <= i {
					continue
				}
				// The tombstone is that of a life before.
				j.again[path] = true
			}
			removed = append(removed, path)
		}
	}
	return removed, nil
}

// notRemoved is for a file that main lacks and that no commit is known to have removed.
func notRemoved(head store.Hash) *Removal {
	v := guard.NotRemoved(string(head))
	v.Message = decision.WordsOfRemoval(v)
	return &Removal{Verdict: v}
}

// unknown is for a file that main lacks where it cannot be asked what removed it.
func unknown(head store.Hash, err error) *Removal {
	removal := notRemoved(head)
	removal.Message = decision.WordsOfUnknown(removal.Verdict, store.LastingLimit(err).Reason)
	return removal
}

// wasHeld is a removal as its answer tells it.
func wasHeld(present *contract.Status) *Removal {
	if present.Reason == "" {
		// Something else was in the way, and what is known of the removal is lost.
		return notRemoved(store.Hash(present.Answers.Commit))
	}
	return &Removal{Verdict: guard.Verdict{Commit: present.Answers.Commit, Reason: present.Reason, Message: present.Message}}
}

// wasRemoved reports whether a commit that was followed removed a file. An
// object's own word counts only since main is followed from here.
func (r *Removals) wasRemoved(ctx context.Context, head store.Hash, seen Seen) (bool, error) {
	begun, since := r.begun(), seen.Answered
	if since == "" {
		since = seen.Applied
	}
	if since == "" || begun == "" {
		return false, nil
	}
	_, descends, err := r.branch.Log(ctx, since, head)
	if err != nil || !descends || seen.Answered != "" {
		return descends, err
	}
	_, descends, err = r.branch.Log(ctx, begun, since)
	return descends, err
}

// WasRequestRemoved reports whether a commit that was followed took away a request
// that was answered as it was in another.
func (r *Removals) WasRequestRemoved(ctx context.Context, answered store.Hash) (bool, error) {
	r.mu.Lock()
	head := r.main.Head()
	r.mu.Unlock()
	was, err := r.wasRemoved(ctx, head, Seen{Answered: answered})
	if store.LastingLimit(err) != nil {
		return false, nil
	}
	return was, err
}
