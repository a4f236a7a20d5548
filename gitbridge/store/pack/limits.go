package pack

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// count counts an object, before anything is done for it.
func (p *reader) count(size int64) error {
	if size < 0 {
		return fmt.Errorf("%w: object of %d bytes", ErrMalformed, size)
	}
	if p.Limits.Object > 0 && size > p.Limits.Object {
		return fmt.Errorf("%w: an object of %d bytes, at most %d", ErrLimit, size, p.Limits.Object)
	}
	if p.Limits.Total > 0 && size > p.Limits.Total-p.Unpacked {
		return fmt.Errorf("%w: more than %d bytes unpacked", ErrLimit, p.Limits.Total)
	}
	p.Unpacked += size
	return nil
}

// countBase counts an object from elsewhere, which git stores with the pack: it is whole then.
func (p *reader) countBase(size int64) error {
	if p.Limits.Total > 0 && size > p.Limits.Total-p.Bases {
		return fmt.Errorf("%w: deltas on more than %d bytes", ErrLimit, p.Limits.Total)
	}
	p.Bases += size
	return nil
}

// countCommit counts an object if it is a commit, kept or not: of one that is not
// kept nobody knows what it stands on.
func (p *reader) countCommit(t plumbing.ObjectType, size int64) error {
	if t != plumbing.CommitObject {
		return nil
	}
	if p.Limits.Commit > 0 && size > p.Limits.Commit {
		return fmt.Errorf("%w: a commit of %d bytes, most of it its message, at most %d", ErrLimit, size, p.Limits.Commit)
	}
	if p.commits += size; p.Limits.Commits > 0 && p.commits > p.Limits.Commits {
		return fmt.Errorf("%w: more than %d bytes of commits with their messages", ErrLimit, p.Limits.Commits)
	}
	return nil
}

// keep counts what is to stay in memory.
func (p *reader) keep(size int64) error {
	if p.kept += size; p.Limits.Kept > 0 && p.kept > p.Limits.Kept {
		return fmt.Errorf("%w: more than %d bytes of it to be kept", ErrLimit, p.Limits.Kept)
	}
	if p.owed += size; p.Charge == nil || p.owed < charged {
		return nil
	}
	owed := p.owed
	p.owed = 0
	return p.Charge(owed)
}
