package repository

import (
	"context"
	"fmt"
	"slices"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/store"
)

// Memory is what must outlive the process, for nothing to be deleted that nobody
// deleted. It is kept in Connection.status.
type Memory struct {
	// Accepted is the last commit of main that was accepted; "" for first contact.
	Accepted store.Hash
	// Begun is the commit from which main counts since a person said so; "" where
	// it was followed from first contact on.
	Begun store.Hash
	// Observed is how far the branch status was seen to come.
	Observed Observed
	// Removals are those that passed lately without an approval.
	Removals []breaker.Removal
	// Moves are files that went from one path to another.
	Moves []Move
	// Approved are the approvals that were acted on last.
	Approved Approved
}

// Observed names a state of the branch status. Without an epoch it is none.
type Observed struct {
	Epoch    string
	Sequence int64
}

// Move is a claim's file that went from one path to another.
type Move struct{ From, To string }

func (m Memory) clone() Memory {
	m.Removals, m.Moves = slices.Clone(m.Removals), slices.Clone(m.Moves)
	return m
}

// Memory returns what is to be kept, under a number that grows with what must be
// kept, and whether some of that is not saved yet.
func (r *Repository) Memory() (m Memory, version int64, unsaved bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.clone(), r.version, r.version > r.savedVersion
}

// Saved is told that a version of Memory was saved by others.
func (r *Repository) Saved(version int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.savedVersion = max(r.savedVersion, version)
}

// Accepted is the last commit of main that was accepted.
func (r *Repository) Accepted() store.Hash {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.Accepted
}

// SaveAccepted makes sure that what was accepted is saved: before anything is
// deleted because of it. Those who wait while another one saves are served
// together by the next save.
func (r *Repository) SaveAccepted(ctx context.Context) error {
	r.mu.Lock()
	want := r.version
	r.mu.Unlock()
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	m, version, saved := r.memory.clone(), r.version, r.savedVersion
	r.mu.Unlock()
	if saved >= want {
		return nil
	}
	if err := r.Save(ctx, m); err != nil {
		return fmt.Errorf("save what was accepted: %w", err)
	}
	r.mu.Lock()
	r.savedObserved = m.Observed
	r.mu.Unlock()
	r.Saved(version)
	return nil
}

// SaveAll saves also what is not worth a write of its own: at the end.
func (r *Repository) SaveAll(ctx context.Context) error {
	r.mu.Lock()
	if r.memory.Observed != r.savedObserved {
		r.version++
	}
	r.mu.Unlock()
	return r.SaveAccepted(ctx)
}

// keep changes what is to be kept; it is saved before long, or by SaveAccepted.
// The caller holds mu.
func (r *Repository) keep(change func(*Memory)) {
	change(&r.memory)
	r.version++
}

// decide changes what is to be kept, and saves it before it counts.
func (r *Repository) decide(ctx context.Context, change func(*Memory)) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	m, version := r.memory.clone(), r.version
	r.mu.Unlock()
	change(&m)
	if err := r.Save(ctx, m); err != nil {
		return fmt.Errorf("save what was decided: %w", err)
	}
	r.mu.Lock()
	change(&r.memory)
	r.savedVersion = max(r.savedVersion, version)
	r.mu.Unlock()
	return nil
}

func (r *Repository) stateChanged() {
	if r.OnState != nil {
		r.OnState()
	}
}
