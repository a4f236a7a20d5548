package repository

import (
	"context"
	"slices"
	"sync"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Pushes say what this cluster's konnector has pushed, from the trailers of its commits.
type Pushes struct {
	lineage *Lineage

	// last is what was pushed of each claim last, up to a commit. It takes the history back to
	// when an object was made, so it is read only when it is asked for: for an object that has
	// no base beside a file that differs.
	mu   sync.Mutex
	upTo store.Hash
	last map[contract.Key]contract.ObjectTrailer
	// depth is how far back it was asked for. What was pushed by before is not known, the zero
	// value for none; and tooLong is why no more of it can be.
	depth   int
	before  time.Time
	tooLong error
}

const (
	// firstDepth is how many commits are asked for at first, and depthFactor how many times
	// more where these do not do.
	firstDepth  = 1000
	depthFactor = 4
	// clockMargin is how far the clocks may be apart of those who made the objects and of those
	// who made the commits.
	clockMargin = 24 * time.Hour
)

// Last is what this cluster's konnector pushed last of a claim, since a commit of main, or of an
// object's since it was made if that is ""; the zero value for nothing. The error is ErrOutdated
// where main has moved on since a view of it: the file there is not the one that it is about. A
// lasting LimitError says that it cannot be told, as that is more history than is read.
func (p *Pushes) Last(ctx context.Context, v View, since store.Hash, key contract.Key, made time.Time) (contract.ObjectTrailer, error) {
	if since == "" {
		return p.sinceMade(ctx, v, key, made)
	}
	head := p.lineage.Accepted()
	if v.isOutdated() {
		return contract.ObjectTrailer{}, ErrOutdated
	}
	commits, descends, err := p.lineage.log(ctx, since, head)
	if err != nil || !descends {
		return contract.ObjectTrailer{}, err
	}
	for _, c := range commits {
		for _, t := range p.trailers(c) {
			if t.Key == key {
				return t, nil
			}
		}
	}
	return contract.ObjectTrailer{}, nil
}

// sinceMade reads as much of the history as an answer takes. A commit that is older than an object
// does not name it.
func (p *Pushes) sinceMade(ctx context.Context, v View, key contract.Key, made time.Time) (contract.ObjectTrailer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// By now: what was read for a newer head does not go on with an older one.
	head := p.lineage.Accepted()
	if v.isOutdated() {
		return contract.ObjectTrailer{}, ErrOutdated
	}
	if err := p.goOn(ctx, head); err != nil {
		return contract.ObjectTrailer{}, err
	}
	for {
		if t, ok := p.last[key]; ok {
			return t, nil
		}
		if p.depth > 0 && (p.before.IsZero() || p.before.Before(made.Add(-clockMargin))) {
			return contract.ObjectTrailer{}, nil
		}
		if p.tooLong != nil {
			return contract.ObjectTrailer{}, p.tooLong
		}
		depth := max(firstDepth, depthFactor*p.depth)
		commits, err := p.lineage.main.Recent(ctx, head, depth)
		if store.LastingLimit(err) != nil {
			p.upTo, p.tooLong = head, err
			continue
		}
		if err != nil {
			return contract.ObjectTrailer{}, err
		}
		p.upTo, p.depth, p.before, p.last = head, depth, unread(commits), map[contract.Key]contract.ObjectTrailer{}
		p.note(commits)
	}
}

// goOn reads what came since the commit that was looked at last.
func (p *Pushes) goOn(ctx context.Context, head store.Hash) error {
	if p.upTo == head {
		return nil
	}
	if p.depth == 0 {
		p.tooLong = nil // the newest commits may be other ones
		return nil
	}
	commits, descends, err := p.lineage.main.Log(ctx, p.upTo, head)
	switch {
	case store.LastingLimit(err) != nil, err == nil && !descends:
		p.upTo, p.depth, p.before, p.tooLong, p.last = "", 0, time.Time{}, nil, nil
	case err != nil:
		return err
	default:
		p.upTo = head
		p.note(commits)
	}
	return nil
}

// note keeps what commits, the newest first, say.
func (p *Pushes) note(commits []store.Commit) {
	for _, c := range slices.Backward(commits) {
		for _, t := range p.trailers(c) {
			p.last[t.Key] = t
		}
	}
}

// unread is the time of the newest of these commits that has a parent beside them; the zero value
// where they are all of a history.
func unread(commits []store.Commit) (newest time.Time) {
	read := map[store.Hash]bool{}
	for _, c := range commits {
		read[c.Hash] = true
	}
	for _, c := range commits {
		if c.Time.After(newest) && slices.ContainsFunc(c.Parents, func(parent store.Hash) bool { return !read[parent] }) {
			newest = c.Time
		}
	}
	return newest
}

// trailers are those of a commit of the konnector's.
func (p *Pushes) trailers(c store.Commit) []contract.ObjectTrailer {
	if !p.lineage.main.Commits([]store.Commit{c})[0].Konnector {
		return nil
	}
	return contract.ParseObjectTrailers(c.Message)
}

// maxAuthors is how many authors are named.
const maxAuthors = 3

// Authors are the first of those who made commits on main between two of them,
// other than this cluster's users; none where these are more history than is read.
func (p *Pushes) Authors(ctx context.Context, since, to store.Hash) ([]string, error) {
	commits, _, err := p.lineage.main.Log(ctx, since, to)
	if store.LastingLimit(err) != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for i, c := range p.lineage.main.Commits(commits) {
		if name := commits[i].Author.Name; !c.Konnector && !slices.Contains(out, name) && len(out) < maxAuthors {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}
