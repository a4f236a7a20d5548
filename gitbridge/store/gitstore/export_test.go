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

// SetTimeouts sets how long the remote may be silent, and how long a request may
// take in all, until restore is called.
func (r *Repository) SetTimeouts(stall, most time.Duration) (restore func()) {
	stallBefore, mostBefore := r.http.stall, r.http.most
	r.http.stall, r.http.most = stall, most
	return func() { r.http.stall, r.http.most = stallBefore, mostBefore }
}
