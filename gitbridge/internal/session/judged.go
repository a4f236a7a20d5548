package session

import (
	"cmp"
	"context"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/store"
)

// judged are the verdicts on the claims that a head of main lacks.
type judged struct {
	removals map[string]*Removal
	// outdated are claims whose answer is about an earlier version of the file, or an
	// earlier life: there may be a service, whatever it says.
	outdated map[string]bool
	// replaces says that these are in the place of all that was known.
	replaces bool
	// afterStart says that they may have passed before the process started.
	afterStart bool
	// commits are the newest ones, and byKonnector the claims that the konnector has removed by
	// them. What was not known to be removed, as main had been set back, is looked up once more.
	commits     []guard.Commit
	byKonnector map[string]int
}

// isNews reports whether the newest commits may say what became of a file of which no commit
// was known to have removed it: they do, or the claim was applied of one of them.
func (j *judged) isNews(path string, known *Removal) bool {
	if known.Reason != contract.NotRemoved {
		return false
	}
	_, byKonnector := j.byKonnector[path]
	return byKonnector || slices.ContainsFunc(j.commits, func(c guard.Commit) bool { return c.Hash == string(known.applied) })
}

// judgeHead judges the claims that a head of main lacks and the one before had;
// where none is known before, those that status shows to have been there.
func (r *Removals) judgeHead(ctx context.Context, old, new *store.Snapshot, commits []guard.Commit, begin bool) (judged, error) {
	j := judged{removals: map[string]*Removal{}, outdated: map[string]bool{}, replaces: old == nil || begin, afterStart: old == nil || begin}
	j.commits, j.byKonnector = commits, guard.RemovedBy(commits, nil)
	var removed, added []string
	var since guard.Since
	if j.replaces {
		var err error
		if removed, commits, err = r.unanswered(ctx, new, commits, begin, j); err != nil {
			return judged{}, err
		}
		added, since = r.answers.missing(new, removed), r.since()
	} else {
		for c := range store.Diff(old, new, contract.Root) {
			switch _, err := contract.ParsePath(c.Path); {
			case err != nil:
			case c.New == nil:
				removed = append(removed, c.Path)
				if present, err := r.answers.read(c.Path); err == nil && present != nil {
					j.outdated[c.Path] = present.Answers.Blob != string(c.Old.Hash)
				}
			case c.Old == nil:
				added = append(added, c.Path)
			}
		}
	}
	return j, r.askGuard(ctx, &j, new, removed, added, commits, since)
}

// askGuard asks the guard which removals may pass. Added are the files that came with them.
func (r *Removals) askGuard(ctx context.Context, j *judged, main *store.Snapshot, removed, added []string, commits []guard.Commit, since guard.Since) error {
	if len(removed) == 0 {
		return nil
	}
	var claims facts.Claims
	r.mu.Lock()
	now := r.now()
	// Those of a clock that was ahead count from now on, so that they end.
	r.passed = r.limits.Recent(r.passed, now)
	rules := guard.Removals{
		Limits: r.limits, Passed: slices.Clone(r.passed), Head: string(main.Head()), Now: now,
		Claims: func(binding string) int { return claims.In(main, binding) },
	}
	r.mu.Unlock()
	counts := func(path string) bool {
		// What passed before a restart need not pass again.
		if j.afterStart && rules.HasPassed(path) {
			return false
		}
		present, err := r.answers.read(path)
		return err != nil || matters(present) || j.outdated[path]
	}
	concerned := map[string]bool{}
	for _, path := range slices.Concat(removed, added) {
		concerned[path] = true
	}
	known := func(path string) []string {
		if since == nil || !concerned[path] {
			return nil
		}
		return since(path)
	}
	ordered := guard.Ordered(commits, known)
	added = slices.DeleteFunc(added, func(path string) bool { return ordered[path] })
	deleted, err := r.deleted(ctx, main, commits, known, removed, added)
	if err != nil {
		return err
	}
	for path, v := range rules.JudgePushes(removed, counts, commits, deleted) {
		v.Message = decision.WordsOfRemoval(v)
		j.removals[path] = &Removal{Verdict: v, CameWith: added}
		if v.ByKonnector {
			// No file has moved, whatever else came with it.
			j.removals[path].CameWith = nil
		}
	}
	return nil
}

// matters reports whether there may be a service to delete for an answer.
func matters(present *contract.Status) bool {
	return present == nil || present.Object != "" && present.Result != contract.Gone && present.Result != contract.Lost
}

// judgeUnanswered judges a claim, and all others that have an object, no file and no answer.
func (r *Removals) judgeUnanswered(ctx context.Context, main *store.Snapshot, path string, seen Seen) (judged, error) {
	all := map[string]Seen{path: seen}
	for other, applied := range withoutFile(r.onControlPlane(""), main) {
		if known, _ := r.known(other); known != nil || other == path {
			continue
		}
		if present, err := r.answers.read(other); err == nil && (present == nil || present.Result == contract.Gone) {
			all[other] = Seen{Applied: applied}
		}
	}
	j := judged{removals: map[string]*Removal{}, outdated: map[string]bool{}, afterStart: true}
	since := func(path string) []string { return []string{string(cmp.Or(all[path].Answered, all[path].Applied))} }
	var removed []string
	var commits []guard.Commit
	asked := map[Seen]wasRemoved{}
	for path, seen := range all {
		j.removals[path], j.outdated[path] = notRemoved(main.Head()), seen.Applied != ""
		j.removals[path].applied = cmp.Or(seen.Answered, seen.Applied)
		was, ok := asked[seen]
		if !ok {
			was = r.wasRemoved(ctx, main.Head(), seen)
			asked[seen] = was
			commits = union(commits, was.commits)
		}
		switch {
		case store.LastingLimit(was.err) != nil:
			j.removals[path] = unknown(main.Head(), was.err)
		case was.err != nil:
			return judged{}, was.err
		case was.removed:
			removed = append(removed, path)
		}
	}
	if len(removed) > 0 {
		slices.Sort(removed)
		return j, r.askGuard(ctx, &j, main, removed, r.answers.missing(main, removed), commits, since)
	}
	return j, nil
}

// union has the commits of two logs, each the newest first, that end at the same head.
func union(a, b []guard.Commit) []guard.Commit {
	if len(a) < len(b) {
		a, b = b, a
	}
	has := map[string]bool{}
	for _, c := range a {
		has[c.Hash] = true
	}
	for _, c := range b {
		if !has[c.Hash] {
			a = append(a[:len(a):len(a)], c)
		}
	}
	return a
}

// hashes are the names of commits.
func hashes(commits []guard.Commit) []string {
	var out []string
	for _, c := range commits {
		out = append(out, c.Hash)
	}
	return out
}
