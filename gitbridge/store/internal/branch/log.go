package branch

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"gitbind.dev/gitbridge/store"
)

// Log answers from the commits that went by, if they suffice.
func (c *Client) Log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	return c.log(ctx, since, to)
}

func (c *Client) log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	switch to {
	case "":
		return nil, since == "", nil
	case since:
		return nil, true, nil
	}
	c.mu.Lock()
	commits, descends, ok := c.commits.log(since, to)
	tooLong := c.tooLong
	c.mu.Unlock()
	if ok {
		return commits, descends, nil
	}
	if tooLong.err != nil && tooLong.since == since && tooLong.to == to {
		return nil, false, fmt.Errorf("log: %w", tooLong.err)
	}
	sent, err := c.remote.Log(ctx, since, to, 0)
	if err != nil {
		c.noteTooLong(since, to, err)
		return nil, false, fmt.Errorf("log: %w", err)
	}
	// More than asked for may have been sent: it is sorted out as above.
	all := commitCache{limit: math.MaxInt}
	for _, commit := range sent {
		all.add(commit)
	}
	_, ok = all.byID[to]
	switch {
	case !ok && len(sent) == 0 && since != "":
		// Since has all that to has: the branch was set back.
		return nil, false, nil
	case !ok:
		return nil, false, fmt.Errorf("log: %w: no commit %s", ErrGone, to)
	}
	commits, descends, ok = all.log(since, to)
	if !ok && since != "" {
		if err := c.addOld(ctx, &all, since, commits); err != nil {
			return nil, false, fmt.Errorf("log: %w", err)
		}
		commits, descends, _ = all.log(since, to)
	}
	c.mu.Lock()
	for _, commit := range slices.Backward(commits) {
		c.commits.add(commit)
	}
	c.mu.Unlock()
	return commits, descends, nil
}

// Recent answers from the commits that went by, if they suffice.
func (c *Client) Recent(ctx context.Context, to store.Hash, depth int) ([]store.Commit, error) {
	if to == "" {
		return nil, nil
	}
	c.mu.Lock()
	commits, ok := c.commits.recent(to, depth)
	c.mu.Unlock()
	if ok {
		return commits, nil
	}
	sent, err := c.remote.Log(ctx, "", to, depth)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	all := commitCache{limit: math.MaxInt}
	for _, commit := range sent {
		all.add(commit)
	}
	if _, ok := all.byID[to]; !ok {
		return nil, fmt.Errorf("log: %w: no commit %s", ErrGone, to)
	}
	commits, _, _ = all.log("", to)
	return commits, nil
}

// maxLowest is how many beginnings of side branches are looked at.
const maxLowest = 4

// addOld adds those of the commits that since has, with what is between. Git servers leave out
// what since has by the dates of commits: where a clock was wrong they send some of it, and only
// commits that do not descend from since can be that.
func (c *Client) addOld(ctx context.Context, all *commitCache, since store.Hash, commits []store.Commit) error {
	sent := map[store.Hash]bool{}
	for _, commit := range commits {
		sent[commit.Hash] = true
	}
	isLow := func(commit store.Commit) bool {
		return !slices.ContainsFunc(commit.Parents, func(p store.Hash) bool { return p == since || sent[p] })
	}
	asked := 0
	for _, commit := range commits {
		if !isLow(commit) || asked == maxLowest {
			continue
		}
		asked++
		// If since has it, it has all between them, whatever else is sent.
		more, err := c.remote.Log(ctx, commit.Hash, since, 0)
		if store.LastingLimit(err) != nil || errors.Is(err, ErrGone) {
			// What else was sent cannot be known.
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range more {
			all.add(m)
		}
	}
	return nil
}

// tooLong is a history that is more than is read.
type tooLong struct {
	since, to store.Hash
	err       *store.LimitError
}

func (c *Client) noteTooLong(since, to store.Hash, err error) {
	limit := store.LastingLimit(err)
	if limit == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tooLong = tooLong{since, to, limit}
}

// commitCache holds the commits that came last.
type commitCache struct {
	// limit is about how many bytes are kept; 0 means cacheLimit.
	limit, size int
	byID        map[store.Hash]store.Commit
	order       []store.Hash
}

const (
	cacheBytes    = 4 << 20
	allCacheBytes = 64 << 20
	// commitBytes is about what a commit takes beside its words and parents, and
	// parentBytes what each of these does.
	commitBytes = 400
	parentBytes = 100
)

func (c *commitCache) add(commit store.Commit) {
	if _, ok := c.byID[commit.Hash]; ok {
		return
	}
	if c.byID == nil {
		c.byID = map[store.Hash]store.Commit{}
	}
	c.byID[commit.Hash] = commit
	c.order = append(c.order, commit.Hash)
	c.size += commitSize(commit)
	limit := c.limit
	if limit == 0 {
		limit = cacheLimit()
	}
	for ; c.size > limit && len(c.order) > 1; c.order = c.order[1:] {
		c.size -= commitSize(c.byID[c.order[0]])
		delete(c.byID, c.order[0])
	}
}

// commitSize is about how many bytes a commit takes.
func commitSize(c store.Commit) int {
	return commitBytes + len(c.Message) + len(c.Author.Name) + len(c.Author.Email) +
		len(c.Committer.Name) + len(c.Committer.Email) + parentBytes*len(c.Parents)
}

// clients is how many branches this process follows.
var clients atomic.Int64

// cacheLimit is what each of them may keep of its commits: those of many add up.
func cacheLimit() int { return min(cacheBytes, allCacheBytes/int(max(1, clients.Load()))) }

// log finds the commits that to has and since has not, as far as they are
// known, and says whether that is surely all of them and nothing else.
func (c *commitCache) log(since, to store.Hash) (commits []store.Commit, descends, complete bool) {
	old, oldComplete := map[store.Hash]bool{}, true
	if since != "" {
		c.walk(since, func(h store.Hash, known bool) bool {
			old[h] = true
			oldComplete = oldComplete && known
			return true
		})
	}
	complete = true
	c.walk(to, func(h store.Hash, known bool) bool {
		switch {
		case h == since:
			descends = true
			return false
		case old[h]:
			return false
		case !known:
			complete = false
			return false
		}
		commits = append(commits, c.byID[h])
		return true
	})
	commits = newestFirst(commits)
	// Where since's own history is not known to its beginning, only what
	// descends from since is surely no part of it.
	return commits, descends, complete && (oldComplete || allDescend(commits, since))
}

// recent finds a commit and those of its ancestors that are fewer than depth parents away, and
// says whether all of these are known.
func (c *commitCache) recent(to store.Hash, depth int) (commits []store.Commit, complete bool) {
	seen := map[store.Hash]bool{to: true}
	for level := []store.Hash{to}; depth > 0 && len(level) > 0; depth-- {
		var parents []store.Hash
		for _, h := range level {
			commit, known := c.byID[h]
			if !known {
				return nil, false
			}
			commits = append(commits, commit)
			for _, p := range commit.Parents {
				if !seen[p] {
					seen[p] = true
					parents = append(parents, p)
				}
			}
		}
		level = parents
	}
	return newestFirst(commits), true
}

// allDescend says that each of the commits, the newest first, has since among
// its ancestors.
func allDescend(commits []store.Commit, since store.Hash) bool {
	descends := map[store.Hash]bool{since: true}
	for _, c := range slices.Backward(commits) {
		if !slices.ContainsFunc(c.Parents, func(p store.Hash) bool { return descends[p] }) {
			return false
		}
		descends[c.Hash] = true
	}
	return true
}

// walk visits a commit and those before it, each once, as long as visit says
// so and they are known.
func (c *commitCache) walk(from store.Hash, visit func(h store.Hash, known bool) bool) {
	seen := map[store.Hash]bool{from: true}
	for todo := []store.Hash{from}; len(todo) > 0; {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		commit, known := c.byID[h]
		if !visit(h, known) || !known {
			continue
		}
		for _, p := range commit.Parents {
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
}

// newestFirst puts every commit before its parents, and otherwise goes by
// time.
func newestFirst(commits []store.Commit) []store.Commit {
	children := map[store.Hash]int{}
	byID := map[store.Hash]store.Commit{}
	for _, c := range commits {
		byID[c.Hash] = c
		for _, p := range c.Parents {
			children[p]++
		}
	}
	var ready byTime
	for _, c := range commits {
		if children[c.Hash] == 0 {
			ready = append(ready, c)
		}
	}
	heap.Init(&ready)
	sorted := make([]store.Commit, 0, len(commits))
	for len(ready) > 0 {
		c := heap.Pop(&ready).(store.Commit)
		sorted = append(sorted, c)
		for _, p := range c.Parents {
			parent, ok := byID[p]
			if children[p]--; ok && children[p] == 0 {
				heap.Push(&ready, parent)
			}
		}
	}
	return sorted
}

// byTime is a heap with the newest commit on top.
type byTime []store.Commit

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, j int) bool { return b[i].Time.After(b[j].Time) }
func (b byTime) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byTime) Push(x any)        { *b = append(*b, x.(store.Commit)) }
func (b *byTime) Pop() any {
	old := *b
	last := old[len(old)-1]
	*b = old[:len(old)-1]
	return last
}
