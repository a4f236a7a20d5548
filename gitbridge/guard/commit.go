package guard

import (
	"maps"
	"time"

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

// UIDs are those of the objects that the konnector named last, by the paths of their claims, of
// commits that are newest first.
func UIDs(commits []Commit) map[string]string {
	uids := map[string]string{}
	for _, c := range commits {
		for _, t := range c.objects() {
			if path := t.Key.Path(); uids[path] == "" {
				uids[path] = t.UID
			}
		}
	}
	return uids
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
