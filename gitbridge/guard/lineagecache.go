package guard

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Ask answers a question about history: which commits to has and since has not, and
// whether since is to or an ancestor of it. With since "" they are all commits.
type Ask func(ctx context.Context, since, to string) (between []string, descends bool, err error)

// maxQuestions is how many commits are asked about one by one. Beyond it, to read all of
// history once costs less.
const maxQuestions = 8

// Lineage is a cache of which commits are part of an accepted head of main. It may be
// used by many goroutines.
type Lineage struct {
	ask Ask
	// asking is held while a question is asked: those who wait mostly have the answer
	// then, where each would ask for all of history.
	asking sync.Mutex

	mu   sync.Mutex
	head string
	// part says of commits whether they are part of head, and complete that all that
	// are it have. Asked counts the questions about head.
	part     map[string]bool
	complete bool
	asked    int
}

// NewLineage is that of a head, which has some commits.
func NewLineage(ask Ask, head string, has []string) *Lineage {
	l := &Lineage{ask: ask}
	l.Begin(head)
	l.Accept(head, has)
	return l
}

// Begin forgets all commits: from now on another history counts.
func (l *Lineage) Begin(head string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.part, l.complete, l.asked = head, map[string]bool{}, false, 0
	l.add([]string{head})
}

// Accept goes on to a descendant of the head, with the commits on the way to it.
func (l *Lineage) Accept(head string, between []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if head != l.head {
		// What was not part of main may have been merged.
		maps.DeleteFunc(l.part, func(_ string, is bool) bool { return !is })
		l.head, l.complete, l.asked = head, false, 0
	}
	l.add([]string{head})
	l.add(between)
}

func (l *Lineage) add(commits []string) {
	for _, commit := range commits {
		if commit != "" {
			l.part[commit] = true
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
		l.part[commit] = descends
	}
	return descends, nil
}

// Passed reports whether a commit is known to be the head or an ancestor of it, without a
// question. Each commit is that Accept was told of.
func (l *Lineage) Passed(commit string) bool {
	is, _ := l.knows(commit)
	return is
}

// knows reports whether a commit is part of main, if that need not be asked.
func (l *Lineage) knows(commit string) (is, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, known = l.part[commit]
	return is, known || l.complete || commit == "" || l.head == ""
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
