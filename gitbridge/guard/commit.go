package guard

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"gitbind.dev/gitbridge/contract"
)

// Commit is what is read from a commit of main.
type Commit struct {
	Hash    string
	Parents []string
	// Konnector says that the app cluster's konnector is its committer: hosts
	// refuse that identity from others.
	Konnector bool
	Time      time.Time
	Message   string
}

// Removed are the paths of the claims whose files the konnector says it removed, the last first, because
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

// approved are the paths of the claims whose removal a person has approved in the app cluster.
func (c Commit) approved() map[string]bool {
	paths := map[string]bool{}
	for _, path := range contract.ParseApproved(c.Message) {
		paths[path] = true
	}
	return paths
}

// objects are what the konnector says of what it committed, the last first.
func (c Commit) objects() []contract.ObjectTrailer {
	if !c.Konnector {
		return nil
	}
	said := contract.ParseObjectTrailers(c.Message)
	slices.Reverse(said)
	return said
}

// UIDs are those of the objects that the konnector named last, by the paths of their claims, of
// commits that are newest first. HasRoom is asked about each path that comes in: if it says that
// there is no room, nothing more is read, and all is false.
func UIDs(commits []Commit, hasRoom func(path string) bool) (uids map[string]string, all bool) {
	uids = map[string]string{}
	for _, c := range commits {
		for _, t := range c.objects() {
			path := t.Key.Path()
			uid, known := uids[path]
			if !known && !hasRoom(path) {
				return uids, false
			}
			if uid == "" {
				// As a part of the message it would keep all of that in memory.
				uids[path] = strings.Clone(t.UID)
			}
		}
	}
	return uids, true
}

// Since gives, for a claim, commits at which it is known what main had: what was committed to it
// before the later of them belongs to an earlier life of it. Nil is for all claims, that nothing
// is known.
type Since func(path string) []string

// RemovedBy are the claims that the konnector removed last, by path, each with the index of
// the commit, of commits that are newest first. What it wrote to since had another life.
func RemovedBy(commits []Commit, since Since) map[string]int {
	by, known := map[string]int{}, map[string]bool{}
	for i, t := range objectsSince(commits, since) {
		path := t.Key.Path()
		if t.Blob == "" && !known[path] {
			by[path] = i
		}
		known[path] = true
	}
	return by
}

// After are the commits of others that come after the one of an index, of commits that are
// newest first. The error is that of ctx, where it has ended.
func After(ctx context.Context, commits []Commit, of int) ([]string, error) {
	var others []string
	after := map[string]bool{commits[of].Hash: true}
	// Where late clocks have a commit listed before those that it comes after, one pass does not do.
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		more = false
		for _, c := range slices.Backward(commits) {
			if after[c.Hash] || !slices.ContainsFunc(c.Parents, func(p string) bool { return after[p] }) {
				continue
			}
			after[c.Hash], more = true, true
			if !c.Konnector {
				others = append(others, c.Hash)
			}
		}
	}
	return others, nil
}

// Ordered are the claims that somebody ordered in the app cluster, by path, of commits that
// are newest first: no file has moved there. What the konnector made of a file, and
// somebody edited, is no first generation.
func Ordered(commits []Commit, since Since) map[string]bool {
	ordered, known := map[string]bool{}, map[string]bool{}
	for _, t := range objectsSince(commits, since) {
		path := t.Key.Path()
		if known[path] = known[path] || t.Blob == ""; !known[path] {
			ordered[path] = t.Generation == 1 && !t.Merged
		}
	}
	maps.DeleteFunc(ordered, func(_ string, yes bool) bool { return !yes })
	return ordered
}

// objectsSince are what the konnector says of its commits, which are newest first, with their
// indexes.
func objectsSince(commits []Commit, since Since) iter.Seq2[int, contract.ObjectTrailer] {
	return func(yield func(int, contract.ObjectTrailer) bool) {
		at, ended := map[string]int{}, map[string]bool{}
		for i, c := range commits {
			at[c.Hash] = i
		}
		for i, c := range commits {
			for _, t := range c.objects() {
				path := t.Key.Path()
				if since != nil && !ended[path] {
					ended[path] = slices.ContainsFunc(since(path), func(s string) bool { return isPast(commits, at, s, i) })
				}
				if !ended[path] && !yield(i, t) {
					return
				}
			}
		}
	}
}

// isPast reports whether one of the commits is the commit of, or an ancestor of it. At are their
// indexes: an ancestor has a higher one than its descendants, but what was merged later may, too.
func isPast(commits []Commit, at map[string]int, of string, i int) bool {
	seen := map[string]bool{}
	for todo := []string{of}; len(todo) > 0; {
		hash := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch j, ok := at[hash]; {
		case !ok || j > i || seen[hash]:
		case j == i:
			return true
		default:
			seen[hash] = true
			todo = append(todo, commits[j].Parents...)
		}
	}
	return false
}
