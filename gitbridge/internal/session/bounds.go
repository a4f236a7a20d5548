package session

import (
	"context"
	"fmt"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/limits"
)

// Reasons of branches that are more than is read.
const (
	mainTooLarge   contract.Reason = "MainTooLarge"
	statusTooLarge contract.Reason = "StatusTooLarge"
)

// mainBranch is what a LimitError calls main.
const mainBranch = "main"

// maxStrays is how many files that are no part of the contract are answered one by
// one. The others are counted.
const maxStrays = 100

// unlessSuspended is a branch that is not fetched while the session is suspended.
type unlessSuspended struct {
	store.Branch
	stops *Stops
}

func (b unlessSuspended) Fetch(ctx context.Context) (*store.Snapshot, error) {
	return b.FetchTip(ctx, "")
}

func (b unlessSuspended) FetchTip(ctx context.Context, tip store.Hash) (*store.Snapshot, error) {
	if err := b.stops.untilResumed(ctx); err != nil {
		return nil, err
	}
	return b.Branch.FetchTip(ctx, tip)
}

func (b unlessSuspended) At(ctx context.Context, commit store.Hash) (*store.Snapshot, error) {
	if err := b.stops.untilResumed(ctx); err != nil {
		return nil, err
	}
	return b.Branch.At(ctx, commit)
}

// onMainError is told what is wrong with main, nil for nothing. A main that is more
// than is read is held, until it is another one.
func (s *Session) onMainError(err error) {
	limit := store.LastingLimit(err)
	if limit == nil || limit.Branch != mainBranch {
		s.fetched(err)
		return
	}
	s.fetched(nil)
	hold := tooLarge(limit)
	s.following.Lock()
	// What was seen before is not main any more, and not to be approved.
	s.seen = nil
	s.hold(hold)
	s.following.Unlock()
	s.mainAnswer.set(contract.Held, limit.Head, hold.Message)
}

// tooLarge is the hold of a branch that is more than is read.
func tooLarge(limit *store.LimitError) guard.Verdict {
	words := fmt.Sprintf("%s is at %s, and not read: %s. Nothing new is applied or deleted meanwhile. ", limit.Branch, limit.Head.Short(), limit.Reason)
	if limit.Passing {
		words += "It is tried again by itself"
	} else {
		words += "Push a commit that takes away what is too much, or set the branch back to one without it: that is followed by itself"
	}
	reason := mainTooLarge
	if limit.Branch != mainBranch {
		reason = statusTooLarge
	}
	return guard.Verdict{Reason: reason, Message: words, Commit: string(limit.Head)}
}

// unanswered are the UIDs that commits named, of claims that are not answered since, by the paths
// of these.
type unanswered struct {
	uids   map[string]string
	extent limits.Tree
}

func (u *unanswered) add(uids map[string]string) {
	for path, uid := range uids {
		if _, has := u.uids[path]; !has {
			u.extent.AddName(len(path))
		}
		u.uids[path] = uid
	}
}

func (u *unanswered) answered(path, uid string) {
	if before, has := u.uids[path]; has && before == uid {
		delete(u.uids, path)
		u.extent.Paths--
		u.extent.Bytes -= int64(len(path))
	}
}

// uidsOf are the UIDs that the commits up to a head name last, by the paths of their claims. Each
// of these is looked at, and remembered until it is answered. Together with those that are
// remembered they are no more than main may have files, where one that is named again counts
// twice: what is more is a LimitError. It is lasting where these commits alone name as many, or
// main is held, as nothing is answered then. A head that is approved is taken without them.
func (s *Session) uidsOf(commits []guard.Commit, head store.Hash) (map[string]string, error) {
	s.mu.Lock()
	total, held := s.unanswered.extent, s.view.Held
	s.mu.Unlock()
	isApproved := s.approved == head
	if isApproved {
		total = limits.Tree{}
	}
	var added limits.Tree
	uids, ok := guard.UIDs(commits, func(path string) bool {
		added.AddName(len(path))
		total.AddName(len(path))
		return total.Exceeded() == ""
	})
	switch {
	case ok:
		return uids, nil
	case isApproved:
		return nil, nil
	}
	return nil, &store.LimitError{
		Branch: mainBranch, Head: head, Passing: added.Exceeded() == "" && !held,
		Reason: fmt.Sprintf("of the claims that commits name, more than %d are not answered yet, or their paths have more than %d MiB", limits.Paths, limits.PathBytes>>20),
	}
}

// tooLong is the hold of a main that can be read, where the history since the last
// commit that was accepted is more than is read. Ok is false for any other error.
func tooLong(err error, head store.Hash) (v guard.Verdict, ok bool) {
	limit := store.LastingLimit(err)
	if limit == nil {
		return v, false
	}
	return guard.Verdict{Reason: mainTooLarge, Commit: string(head), Message: fmt.Sprintf("main is at %s, and what led there from the last commit that was accepted is not read: %s. "+wayOn, head.Short(), limit.Reason, head)}, true
}

// unanswerable says of files that are no part of the contract that they are too many
// to be answered one by one, "" when they are not.
func (s *Session) unanswerable() (head store.Hash, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strays <= maxStrays {
		return "", ""
	}
	return s.view.Main.Head(), fmt.Sprintf("%d files below %s/ are no claims, requests or inputs: %d of them are answered one by one. Remove them", s.strays, contract.Root, maxStrays)
}

// isStray reports whether a path below Root is no part of the contract.
func isStray(path string) bool {
	if _, err := contract.ParsePath(path); err == nil || contract.IsReserved(path) {
		return false
	}
	_, isRequest := contract.ParseRequestPath(path)
	return !isRequest
}

// strayFilter lets through what is to be looked at: of the strays those that have an
// answer, and as many more as are answered. Before is how many there were before.
func (a *Answers) strayFilter(before int) func(path string) bool {
	room := maxStrays - before
	return func(path string) bool {
		if !isStray(path) || a.has(path) {
			return true
		}
		room--
		return room >= 0
	}
}

// countStrays is how many there are in a tree, by what differs from another one.
func countStrays(before int, old, new *store.Snapshot) int {
	for c := range store.Diff(old, new, contract.Root) {
		if (c.Old == nil) == (c.New == nil) || !isStray(c.Path) {
			continue
		}
		if c.New != nil {
			before++
		} else {
			before--
		}
	}
	return before
}
