package gitstore

import "time"

// SetIncrement sets how many objects are taken for what changed.
func (r *Repository) SetIncrement(n int) { r.http.increment = n }

// Branches is how many branches are kept.
func (r *Repository) Branches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.branches)
}

// SetMost sets how long a request may take.
func (r *Repository) SetMost(d time.Duration) { r.http.most = d }
