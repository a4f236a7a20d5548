package session

import (
	"cmp"
	"slices"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/store"
)

// Removal is a claim whose file main lacks, as the session judges it.
type Removal struct {
	decision.Removal
	// Approved says that a person wants it to go, and approvedHere that this was
	// said on the control plane.
	Approved     bool
	approvedHere bool
	// With are files that came with the same commits.
	With []string
}

// push is what was removed at once.
type push struct {
	at    time.Time
	paths []string
}

// pushes sorts removed paths by what removed them. A commit of the konnector
// counts for itself, and at its own time: a bridge that was away must not take a
// week of single deletes for one large one. Times are moved so that the newest of
// these commits is of now, whatever clock made them. All the rest counts as one.
// Approved are those that a person approved in the app cluster.
func pushes(removed []string, commits []store.Commit, clusterID string, now time.Time) (list []push, approved map[string]bool) {
	_, konnector := contract.Identity(contract.Konnector, clusterID)
	of, newest := map[string]int{}, time.Time{}
	approved = map[string]bool{}
	for i, c := range commits { // newest first
		if c.Committer.Email != konnector {
			continue
		}
		if c.Time.After(newest) {
			newest = c.Time
		}
		for _, path := range removedBy(c) {
			if _, ok := of[path]; !ok {
				of[path] = i
				approved[path] = slices.Contains(contract.ParseApproved(c.Message), path)
			}
		}
	}
	byCommit := map[int]*push{}
	for _, path := range removed {
		if approved[path] {
			continue
		}
		i, ok := of[path]
		at := now
		if ok {
			at = now.Add(-newest.Sub(commits[i].Time))
		} else {
			i = -1
		}
		if byCommit[i] == nil {
			byCommit[i] = &push{at: at}
		}
		byCommit[i].paths = append(byCommit[i].paths, path)
	}
	for _, p := range byCommit {
		slices.Sort(p.paths)
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b push) int { return cmp.Or(a.at.Compare(b.at), slices.Compare(a.paths, b.paths)) })
	return list, approved
}

// removedBy are the paths that a commit of the konnector says it removed.
func removedBy(c store.Commit) []string {
	var out []string
	for _, t := range contract.ParseObjectTrailers(c.Message) {
		if t.Blob == "" {
			out = append(out, t.Key.Path())
		}
	}
	return out
}

// judgePushes says which of the pushes may pass, oldest first. Left is how many
// claims each binding has without them.
func judgePushes(l breaker.Limits, passed []breaker.Removal, list []push, left func(binding string) int) (now []breaker.Removal, held map[string]int) {
	pending := map[string]int{}
	for _, p := range list {
		for _, path := range p.paths {
			pending[bindingOf(path)]++
		}
	}
	held = map[string]int{}
	for _, p := range list {
		had := func(binding string) int { return left(binding) + pending[binding] }
		if !l.Allows(slices.Concat(passed, now), p.paths, had, p.at) {
			for _, path := range p.paths {
				held[path] = len(p.paths)
			}
			continue
		}
		for _, path := range p.paths {
			pending[bindingOf(path)]--
			now = append(now, breaker.Removal{Path: path, At: p.at})
		}
	}
	return now, held
}

func bindingOf(path string) string {
	key, err := contract.ParsePath(path)
	if err != nil {
		return ""
	}
	return key.Binding
}

// matters reports whether there may be a service to delete for an answer.
func matters(present *contract.Status) bool {
	return present == nil || present.Object != "" && present.Result != contract.Gone && present.Result != contract.Lost
}
