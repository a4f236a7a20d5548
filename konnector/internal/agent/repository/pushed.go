package repository

import (
	"context"
	"slices"
	"sync"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Committer is the name under which the konnector commits.
const Committer = contract.Konnector

// Pushes say what this cluster's konnector has pushed, from the trailers of its commits.
type Pushes struct {
	lineage *Lineage

	// last is what was pushed of each claim last, up to a commit. It takes the whole
	// history, so it is made only when it is asked for: for an object that has no base
	// beside a file that differs.
	mu   sync.Mutex
	upTo store.Hash
	last map[contract.Key]contract.ObjectTrailer
}

// Last is what this cluster's konnector pushed last of a claim, since a
// commit of main, or ever if that is ""; the zero value for nothing. The error is ErrOutdated
// where main has moved on since a view of it: the file there is not the one that it is about.
func (p *Pushes) Last(ctx context.Context, v View, since store.Hash, key contract.Key) (contract.ObjectTrailer, error) {
	head := p.lineage.Accepted()
	if v.isOutdated() {
		return contract.ObjectTrailer{}, ErrOutdated
	}
	if since == "" {
		return p.ever(ctx, head, key)
	}
	commits, descends, err := p.lineage.main.Log(ctx, since, head)
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

func (p *Pushes) ever(ctx context.Context, head store.Hash, key contract.Key) (contract.ObjectTrailer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.upTo != head {
		commits, descends, err := p.lineage.main.Log(ctx, p.upTo, head)
		if err == nil && p.upTo != "" && !descends {
			p.upTo = ""
			commits, _, err = p.lineage.main.Log(ctx, "", head)
		}
		if err != nil {
			return contract.ObjectTrailer{}, err
		}
		if p.upTo == "" {
			p.last = map[contract.Key]contract.ObjectTrailer{}
		}
		for _, c := range slices.Backward(commits) {
			for _, t := range p.trailers(c) {
				p.last[t.Key] = t
			}
		}
		p.upTo = head
	}
	return p.last[key], nil
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
// other than this cluster's users.
func (p *Pushes) Authors(ctx context.Context, since, to store.Hash) ([]string, error) {
	commits, _, err := p.lineage.main.Log(ctx, since, to)
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
