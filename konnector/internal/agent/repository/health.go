package repository

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-logr/logr"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store"
)

// Health says what does not work. An error is nil where all is well.
type Health struct {
	// Contacted says that both branches were read once.
	Contacted            bool
	Main, Status, Events error
	// Pushes is why the host could not store the last push, as when its disk is full.
	Pushes error
	// Replaced says in words that main does not continue what was accepted.
	Replaced string
	// StatusReplaced says in words that status does not continue what was seen.
	StatusReplaced string
	// Copied says in words that another copy of the cluster is live.
	Copied string
}

// Err is what keeps the repository from being used; nil when nothing does.
func (h Health) Err() error {
	return cmp.Or(h.Main, h.Status, h.Pushes)
}

// Health says what does not work now.
func (r *Repository) Health() Health {
	r.mu.Lock()
	h, statusKnown := r.health, r.statusKnown
	r.mu.Unlock()
	h.Copied = r.standing().Copied
	h.Replaced = r.Lineage.last.Load().verdict.Message
	if statusKnown {
		_, h.StatusReplaced = r.status.view()
	}
	return h
}

func (r *Repository) setHealth(change func(*Health)) {
	r.mu.Lock()
	before := r.health
	change(&r.health)
	after := r.health
	r.mu.Unlock()
	if before.Err() != nil && after.Err() == nil {
		r.tell.recovered()
	}
	if before.Contacted != after.Contacted || !same(before.Main, after.Main) ||
		!same(before.Status, after.Status) || !same(before.Events, after.Events) || !same(before.Pushes, after.Pushes) {
		r.tell.stateChanged()
	}
}

// same reports whether two errors are one trouble to people.
func same(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	reasonA, messageA := Explain(a)
	reasonB, messageB := Explain(b)
	return reasonA == reasonB && messageA == messageB
}

// Refused returns the files on main that the control plane refuses: how many,
// and the first of them by path.
func (r *Repository) Refused() (int, []v1alpha1.RefusedFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.refused), r.refused.first(maxRefused)
}

const maxRefused = 50

// notePush notes what came of a push, and logs why the host did not take it.
func (r *Repository) notePush(ctx context.Context, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("connection", r.Connection)
	var notTaken *store.NotTakenError
	switch {
	case errors.Is(err, store.ErrRejected):
		log.Info("push rejected", "error", err.Error())
		return
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrRewritten), errors.Is(err, ErrMoved), ctx.Err() != nil:
		return // that says nothing of the host
	case err == nil || errors.As(err, &notTaken):
		r.setHealth(func(h *Health) { h.Pushes = err })
	}
	r.mu.Lock()
	before := r.pushTrouble
	r.pushTrouble = err
	r.mu.Unlock()
	if !same(before, err) {
		store.LogTrouble(log, "pushes", err)
	}
}
