package guard

import (
	"context"
	"slices"
	"sync"
)

// Ask answers a question about history: which commits to has and since has not, and
// whether since is to or an ancestor of it. With since "" they are all commits.
type Ask func(ctx context.Context, since, to string) (between []string, descends bool, err error)

// maxQuestions is how many commits are asked about one by one. Beyond it, to read all of
// history once costs less.
const maxQuestions = 8

// maxCommits is how many commits are remembered at least, and half of how many are at most:
// those that were added or asked about last. They take at most 20 MiB; about as many are within
// the history that is read.
const maxCommits = 100_000

// Lineage is a cache of which commits are part of an accepted head of main. It may be
// used by many goroutines.
type Lineage struct {
	ask Ask
	// asking is held while a question is asked: those who wait mostly have the answer
	// then, where each would ask for all of history.
	asking sync.Mutex

	mu   sync.Mutex
	head string
	// part are commits that are part of head, and complete says that they are all. Other
	// are commits that are not. Asked counts the questions about head.
	part     commitCache
	complete bool
	other    map[string]bool
	asked    int
}

// NewLineage is that of a head, which has some commits.
func NewLineage(ask Ask, head string, has []string) *Lineage {
	l := &Lineage{ask: ask, part: commitCache{most: maxCommits}}
	l.Begin(head)
	l.Accept(head, has)
	return l
}

// Begin forgets all commits: from now on another history counts.
func (l *Lineage) Begin(head string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = commitCache{most: l.part.most}
	l.moveTo(head)
	l.add([]string{head})
}

// Accept goes on to a descendant of the head, with the commits on the way to it.
func (l *Lineage) Accept(head string, between []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if head != l.head {
		l.moveTo(head)
	}
	l.add(between)
	l.add([]string{head})
}

// moveTo has another head. What was not part of main may have been merged.
func (l *Lineage) moveTo(head string) {
	l.head, l.complete, l.other, l.asked = head, false, map[string]bool{}, 0
}

// add adds commits, which come newest first.
func (l *Lineage) add(commits []string) {
	for _, commit := range slices.Backward(commits) {
		if commit != "" && l.part.add(commit) {
			l.complete = false
		}
	}
}

// Has reports whether a commit is the head or an ancestor of it. No commit, "", is none.
func (l *Lineage) Has(ctx context.Context, commit string) (bool, error) {
	if is, known := l.knows(commit); known {
		return is, nil
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	since, head, is, known := l.question(commit)
	if known {
		return is, nil
	}
	between, descends, err := l.ask(ctx, since, head)
	if err != nil && since == "" {
		// All of history may be more than is read, and what came after the commit not.
		since = commit
		between, descends, err = l.ask(ctx, since, head)
	}
	if err != nil {
		return false, err
	}
	if since == "" {
		descends = slices.Contains(between, commit)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head == head {
		if since == "" {
			l.complete = true
		}
		if descends || l.complete {
			l.add(between)
		}
		if descends {
			l.add([]string{commit})
		} else {
			l.other[commit] = true
		}
	}
	return descends, nil
}

// Passed reports whether a commit is known to be the head or an ancestor of it, without a
// question. The last maxCommits are that Accept was told of.
func (l *Lineage) Passed(commit string) bool {
	is, _ := l.knows(commit)
	return is
}

// knows reports whether a commit is part of main, if that need not be asked.
func (l *Lineage) knows(commit string) (is, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.part.has(commit) {
		l.add([]string{commit})
		return true, true
	}
	return false, l.other[commit] || l.complete || commit == "" || l.head == ""
}

// question is what must be asked to know of a commit, if it is not known.
func (l *Lineage) question(commit string) (since, head string, is, known bool) {
	if is, known = l.knows(commit); known {
		return "", "", is, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked++; l.asked <= maxQuestions {
		since = commit
	}
	return since, l.head, false, false
}

// commitCache remembers commits. Once there are most recent ones, the older ones are forgotten,
// and the recent ones are older.
type commitCache struct {
	most          int
	recent, older map[string]struct{}
}

// add remembers a commit, and reports whether others were forgotten for it.
func (c *commitCache) add(commit string) (forgot bool) {
	if _, is := c.recent[commit]; is {
		return false
	}
	if c.recent == nil || len(c.recent) == c.most {
		forgot = len(c.older) > 0
		c.recent, c.older = map[string]struct{}{}, c.recent
	}
	c.recent[commit] = struct{}{}
	return forgot
}

func (c *commitCache) has(commit string) bool {
	_, isRecent := c.recent[commit]
	_, isOlder := c.older[commit]
	return isRecent || isOlder
}

func (c *commitCache) len() int { return len(c.recent) + len(c.older) }
