package repository

import "errors"

// Standing is what is known of other processes that work for the same app cluster.
type Standing struct {
	// Copied says in words that another copy of the cluster is live, or goes on in the
	// place of this one; "" when none is known.
	Copied string
	// Alone says that no other process is live. Before that is known, nothing is removed.
	Alone bool
}

// ErrCopied says that another copy of the cluster is live.
var ErrCopied = errors.New("another copy of this cluster is live")

// ErrNotAlone says that another process may be live.
var ErrNotAlone = errors.New("another process of this cluster may be live")

func (r *Repository) standing() Standing {
	if r.Standing == nil {
		return Standing{Alone: true}
	}
	return r.Standing()
}

// StandingChanged tells that Standing gives another one.
func (r *Repository) StandingChanged() {
	r.tell.recovered()
	r.tell.stateChanged()
}

// MayRemove is why nothing may be removed now, neither from main nor here; nil if it may.
func (r *Repository) MayRemove() error {
	if err := r.MayWrite(); err != nil {
		return err
	}
	if !r.standing().Alone {
		return ErrNotAlone
	}
	return nil
}
