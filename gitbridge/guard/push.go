package guard

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
)

// Commit is what is read from a commit of main.
type Commit struct {
	// Konnector says that the app cluster's konnector is its committer: hosts
	// refuse that identity from others.
	Konnector bool
	Time      time.Time
	Message   string
}

// Removed are the paths of the claims whose files the konnector says it removed, because
// their objects were deleted. Of others' commits there are none.
func (c Commit) Removed() []string {
	var out []string
	for _, t := range c.objects() {
		if t.Blob == "" {
			out = append(out, t.Key.Path())
		}
	}
	return out
}

// objects are what the konnector says of what it committed.
func (c Commit) objects() []contract.ObjectTrailer {
	if !c.Konnector {
		return nil
	}
	return contract.ParseObjectTrailers(c.Message)
}

// RemovedBy are the claims that the konnector removed last, by path, each with the index of
// the commit, of commits that are newest first. What it wrote to since had another life.
func RemovedBy(commits []Commit) map[string]int {
	by, known := map[string]int{}, map[string]bool{}
	for i, c := range commits {
		for _, t := range c.objects() {
			path := t.Key.Path()
			if t.Blob == "" && !known[path] {
				by[path] = i
			}
			known[path] = true
		}
	}
	return by
}

// Ordered are the claims that somebody ordered in the app cluster, by path, of commits that
// are newest first: no file has moved there. What the konnector made of a file, and
// somebody edited, is no first generation.
func Ordered(commits []Commit) map[string]bool {
	ordered, known := map[string]bool{}, map[string]bool{}
	for _, c := range commits {
		for _, t := range c.objects() {
			path := t.Key.Path()
			if known[path] = known[path] || t.Blob == ""; !known[path] {
				ordered[path] = t.Generation == 1 && !t.Merged
			}
		}
	}
	maps.DeleteFunc(ordered, func(_ string, yes bool) bool { return !yes })
	return ordered
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
// with the commits of between, newest first. Counts says of which the breaker is asked;
// the others pass.
//
// A commit of the konnector counts for itself, and at its own time: a bridge that was
// away must not take a week of single deletes for one large one. Times are moved so that
// the newest of these commits is of now, whatever clock made them. All the rest counts as
// one. What a person approved in the app cluster passes.
func (r Removals) JudgePushes(removed []string, counts func(path string) bool, commits []Commit) map[string]Verdict {
	verdicts := map[string]Verdict{}
	byKonnector, newest := RemovedBy(commits), time.Time{}
	for _, c := range commits {
		if c.Konnector && c.Time.After(newest) {
			newest = c.Time
		}
	}
	groups := map[int]*group{} // by the index of their commit
	for _, path := range removed {
		v, at := Verdict{Commit: r.Head}, r.Now
		i, ok := byKonnector[path]
		if ok {
			v.ByKonnector, v.Approved = true, slices.Contains(contract.ParseApproved(commits[i].Message), path)
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
			pending[bindingOf(path)]++
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
				pending[bindingOf(path)]--
			} else {
				v.Reason, v.Together = contract.ManyRemovals, len(g.paths)
			}
			verdicts[path] = v
		}
	}
}

func bindingOf(path string) string {
	key, err := contract.ParsePath(path)
	if err != nil {
		return ""
	}
	return key.Binding
}
