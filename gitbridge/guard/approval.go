package guard

import (
	"context"
	"time"

	"gitbind.dev/gitbridge/contract"
)

// Approval is a person's word that removals are right: all that there were at a commit of
// main. The zero value is none.
type Approval struct {
	Commit string
	// UpTo is when the last delete of an object began that was approved with them, by
	// the API server's clock. Only the app cluster knows of such deletes.
	UpTo time.Time
}

// IsAhead reports whether it was made under a clock that was ahead of now by more than
// a window: it would cover what begins until that time has come.
func (a Approval) IsAhead(now time.Time, window time.Duration) bool {
	return a.UpTo.Sub(now) > window
}

// CoversDelete reports whether it covers the removal of a file whose object is being
// deleted since then.
func (a Approval) CoversDelete(since time.Time) bool {
	return a.Commit != "" && !since.IsZero() && !since.After(a.UpTo)
}

// CoversHeld reports whether it covers a removal that was held at a commit. A later
// commit covers what was held before. What no commit was seen to remove goes only when
// just the commit is named at which it was held. Lineage is that of the approved commit.
func (a Approval) CoversHeld(ctx context.Context, v Verdict, lineage *Lineage) (bool, error) {
	switch {
	case v.Commit == a.Commit:
		return true, nil
	case v.Reason == contract.NotRemoved:
		return false, nil
	}
	return lineage.Has(ctx, v.Commit)
}

// History is what is known of main's past.
type History interface {
	// Descends reports whether a commit is another one or a descendant of it, and
	// whether the konnector alone made the commits between the two.
	Descends(ctx context.Context, since, to string) (descends, konnectorOnly bool, err error)
	// HadFile reports whether main had a file at a commit, if that is still known.
	HadFile(commit, path string) (had, known bool)
}

// CoversFile reports whether it covers a claim whose file main lacks at its head. Agreed
// is the commit at which the claim and its file last agreed, "" for none: what was not
// there yet at the approved commit, no person has looked at.
func (a Approval) CoversFile(ctx context.Context, path, agreed, head string, history History) (bool, error) {
	if a.Commit == "" || agreed == "" {
		return false, nil
	}
	if was, _, err := history.Descends(ctx, agreed, a.Commit); err != nil || !was {
		return false, err
	}
	if a.Commit == head {
		return true, nil
	}
	if had, known := history.HadFile(a.Commit, path); known {
		return !had, nil
	}
	// The konnector removes no file of an object that lives. If no other has pushed
	// since, main lacked then what it lacks now.
	descends, konnectorOnly, err := history.Descends(ctx, a.Commit, head)
	return descends && konnectorOnly, err
}
