package guard

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
)

// NotRemoved is the verdict on a file that main lacks at a head, where it is not known
// that a commit after one with the file removed it.
func NotRemoved(head string) Verdict { return Verdict{Reason: contract.NotRemoved, Commit: head} }

// Moved is the verdict on a removal of a claim that seems to be in another file now.
func Moved(head, to string) Verdict {
	return Verdict{Reason: contract.Moved, Commit: head, MovedTo: to}
}

// Removals are what each removal is judged by.
type Removals struct {
	Limits breaker.Limits
	// Passed are those that passed lately.
	Passed []breaker.Removal
	// Head is the head of main, and Claims how many claims a binding has there.
	Head   string
	Claims func(binding string) int
	Now    time.Time
}

// HasPassed reports whether a removal passed within the window: it need not pass again.
func (r Removals) HasPassed(path string) bool {
	for _, p := range r.Passed {
		if p.Path == path && r.Now.Sub(p.At) < r.Limits.Window {
			return true
		}
	}
	return false
}

// Waiting is a removal that was not carried out yet, as the konnector sees it.
type Waiting struct {
	Key contract.Key
	// FileGone says that the file is gone from main, and the object would go.
	// Otherwise the object is being deleted, and its file would go.
	FileGone bool
	// Since is when it was seen first. Those that come within one window are judged
	// together.
	Since time.Time
	// Held says that it was one of too many: from then on only a person lets it pass.
	Held bool
}

// JudgeWaiting decides on one removal as one of all that wait. Files and objects are
// counted apart. Approved reports whether a person has approved one, and is asked of
// those only that count.
func (r Removals) JudgeWaiting(me Waiting, all iter.Seq[Waiting], approved func(Waiting) (bool, error)) (Verdict, error) {
	if yes, err := approved(me); err != nil || yes {
		return Verdict{Commit: r.Head, Approved: yes}, err
	}
	// What was held does not pass together with what comes after it.
	var counted []string
	var together []contract.Key
	gone := map[string]int{}
	for w := range all {
		if w.FileGone != me.FileGone || w.Key != me.Key && r.Now.Sub(w.Since) >= r.Limits.Window {
			continue
		}
		if yes, err := approved(w); err != nil {
			return Verdict{}, err
		} else if yes {
			continue
		}
		counted = append(counted, w.Key.Path())
		if w.FileGone {
			gone[w.Key.Binding]++
		}
		if !w.Held {
			together = append(together, w.Key)
		}
	}
	had := func(binding string) int { return r.Claims(binding) + gone[binding] }
	v := Verdict{Commit: r.Head}
	switch {
	case me.Held:
		v.Reason, v.Together = contract.ManyRemovals, len(counted)
	case r.Limits.Allows(r.Passed, counted, had, r.Now):
		v.Passing = passing(together, r.Now)
	default:
		v.Reason, v.Together, v.Holding = contract.ManyRemovals, len(counted), together
	}
	return v, nil
}

func passing(keys []contract.Key, at time.Time) []breaker.Removal {
	var out []breaker.Removal
	for _, key := range keys {
		out = append(out, breaker.Removal{Path: key.Path(), At: at})
	}
	return out
}

// group is removals that are judged as one.
type group struct {
	at    time.Time
	paths []string
}

// byOthers stands, among the indexes of commits, for all that are not the konnector's:
// what they removed is one group.
const byOthers = -1

// JudgePushes decides on the removals between two heads of main, as the bridge sees them:
// with the commits of between, newest first. ByKonnector has the index of the commit for each
// that the konnector removed, as RemovedBy tells. Counts says of which the breaker is asked; the
// others pass.
//
// A commit of the konnector counts for itself, and at its own time: a bridge that was
// away must not take a week of single deletes for one large one. Times are moved so that
// the newest of these commits is of now, whatever clock made them. All the rest counts as
// one. What a person approved in the app cluster passes.
func (r Removals) JudgePushes(removed []string, counts func(path string) bool, commits []Commit, byKonnector map[string]int) map[string]Verdict {
	verdicts := map[string]Verdict{}
	oldest, newest := -1, time.Time{}
	for _, path := range removed {
		if i, ok := byKonnector[path]; ok {
			oldest = max(oldest, i)
		}
	}
	for _, c := range commits[:oldest+1] {
		if c.Konnector && c.Time.After(newest) {
			newest = c.Time
		}
	}
	// By the index of their commit.
	groups, approved := map[int]*group{}, map[int]map[string]bool{}
	for _, path := range removed {
		v, at := Verdict{Commit: r.Head}, r.Now
		i, ok := byKonnector[path]
		if ok {
			if approved[i] == nil {
				approved[i] = commits[i].approved()
			}
			v.ByKonnector, v.Approved = true, approved[i][path]
			at = r.Now.Add(-newest.Sub(commits[i].Time))
		} else {
			i = byOthers
		}
		verdicts[path] = v
		if v.Approved || !counts(path) {
			continue
		}
		if groups[i] == nil {
			groups[i] = &group{at: at}
		}
		groups[i].paths = append(groups[i].paths, path)
	}
	r.judge(slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(a.at.Compare(b.at), slices.Compare(a.paths, b.paths))
	}), verdicts)
	return verdicts
}

// judge asks the breaker about one group after the other, the oldest first. Pending are the
// removals of each binding that have not passed so far: before a group, a binding had them
// beside the claims that it has now.
func (r Removals) judge(groups []*group, verdicts map[string]Verdict) {
	pending := map[string]int{}
	for _, g := range groups {
		for _, path := range g.paths {
			pending[contract.BindingOf(path)]++
		}
	}
	had := func(binding string) int { return r.Claims(binding) + pending[binding] }
	passed := slices.Clone(r.Passed)
	for _, g := range groups {
		allowed := r.Limits.Allows(passed, g.paths, had, g.at)
		for _, path := range g.paths {
			v := verdicts[path]
			if allowed {
				v.Passing = []breaker.Removal{{Path: path, At: g.at}}
				passed = append(passed, v.Passing...)
				pending[contract.BindingOf(path)]--
			} else {
				v.Reason, v.Together = contract.ManyRemovals, len(g.paths)
			}
			verdicts[path] = v
		}
	}
}
