package session

import (
	"cmp"
	"context"
	"sync"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// unanswered looks for the claims that status answers, or commits name, and main
// lacks. Those whose removal is not answered yet are returned, with the commits since the
// oldest of their answers; what is held stays so.
func (r *Removals) unanswered(ctx context.Context, main *store.Snapshot, commits []guard.Commit, begin bool, j judged) (removed []string, since []guard.Commit, err error) {
	since = commits
	lineage := guard.NewLineage(func(ctx context.Context, from, to string) ([]string, bool, error) {
		between, descends, err := r.branch.Log(ctx, store.Hash(from), store.Hash(to))
		read := r.branch.Commits(between)
		if descends || from == "" {
			since = union(since, read)
		}
		return hashes(read), descends, err
	}, string(main.Head()), hashes(commits))
	seen, tombstones := map[string]bool{}, map[string]string{}
	status := r.status.Snapshot()
	applied := sync.OnceValue(func() map[string]store.Hash { return r.onControlPlane("") })
	for e := range status.List(contract.Root) {
		if _, err := contract.ParsePath(e.Path); err != nil {
			continue
		}
		seen[e.Path] = true
		if _, ok := main.Entry(e.Path); ok {
			continue
		}
		present, err := r.answers.in(status, e.Path)
		switch {
		case err != nil:
			// It is not known what it says: nothing is deleted for it.
			j.removals[e.Path] = notRemoved(main.Head())
		case present.Result == contract.Gone:
			r.status.NoteTombstone(e.Path, present.Since)
			tombstones[e.Path] = present.Answers.Commit
			delete(seen, e.Path)
		case present.Result == contract.Held && present.Answers.Blob == "":
			was := wasHeld(present)
			if was.Reason == contract.NotRemoved {
				was.applied = applied()[e.Path]
			}
			if begin || !j.isNews(e.Path, was) {
				j.removals[e.Path] = was
			}
		case begin && present.Answers.Blob != "":
			// Nothing is deleted for what a new begin lacks, also where an answer that was
			// under way took the place of what was held for it.
			j.removals[e.Path] = notRemoved(main.Head())
		case present.Answers.Blob != "":
			switch had, err := lineage.Has(ctx, present.Answers.Commit); {
			case store.LastingLimit(err) != nil:
				j.removals[e.Path] = unknown(main.Head(), err)
			case err != nil:
				return nil, nil, err
			case had:
				removed = append(removed, e.Path)
			default:
				j.removals[e.Path] = notRemoved(main.Head())
			}
		}
	}
	if begin {
		return removed, since, nil
	}
	return append(removed, r.removedBy(commits, main, seen, tombstones, j.outdated)...), since, nil
}

// removedBy are the claims that commits, newest first, removed, but for those that were seen.
// Tombstones are the commits that tombstones answer, by path; those of a life before are
// outdated.
func (r *Removals) removedBy(commits []guard.Commit, main *store.Snapshot, seen map[string]bool, tombstones map[string]string, outdated map[string]bool) (removed []string) {
	at := map[string]int{}
	for i, c := range commits {
		at[c.Hash] = i
	}
	for i, c := range commits {
		for _, path := range c.Removed() {
			if _, ok := main.Entry(path); ok || seen[path] {
				continue
			}
			seen[path] = true
			if commit, ok := tombstones[path]; ok {
				if answered, ok := at[commit]; ok && answered <= i {
					continue
				}
				outdated[path] = true
			}
			removed = append(removed, path)
		}
	}
	return removed
}

// since tells of a claim at which commits it is known from status what main had of it: the answer
// to it is to one, and all of main is answered at another. What is held may have an answer to an
// earlier state of its file, as that is still to be acted on.
func (r *Removals) since() guard.Since {
	all := ""
	if o := statusbranch.Observed(r.status.Snapshot()); o.Epoch == r.status.Epoch() {
		all = o.Commit
	}
	return func(path string) []string {
		present, err := r.answers.read(path)
		switch {
		case err != nil || present == nil:
			return nil
		case present.Result == contract.Held:
			return []string{present.Answers.Commit}
		}
		return []string{present.Answers.Commit, all}
	}
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

// wasRemoved says whether a commit that was followed removed a file.
type wasRemoved struct {
	removed bool
	// commits are those since it was seen.
	commits []guard.Commit
	err     error
}

// wasRemoved looks it up. An object's own word counts only since main is followed from here.
func (r *Removals) wasRemoved(ctx context.Context, head store.Hash, seen Seen) (was wasRemoved) {
	begun, since := r.begun(), cmp.Or(seen.Answered, seen.Applied)
	if since == "" || begun == "" {
		return was
	}
	commits, removed, err := r.branch.Log(ctx, since, head)
	was = wasRemoved{removed: removed, commits: r.branch.Commits(commits), err: err}
	if was.err == nil && was.removed && seen.Answered == "" {
		_, was.removed, was.err = r.branch.Log(ctx, begun, since)
	}
	return was
}

// WasRequestRemoved reports whether a commit that was followed took away a request
// that was answered as it was in another.
func (r *Removals) WasRequestRemoved(ctx context.Context, answered store.Hash) (bool, error) {
	r.mu.Lock()
	head := r.main.Head()
	r.mu.Unlock()
	was := r.wasRemoved(ctx, head, Seen{Answered: answered})
	if store.LastingLimit(was.err) != nil {
		return false, nil
	}
	return was.removed, was.err
}
