package gitstore

import (
	"time"

	"golang.org/x/time/rate"
)

// SetBudget lets the repository be pushed to so many times at once, and then once
// in each interval. By its options it is as many at once as in a minute.
func (r *Repository) SetBudget(atOnce int, interval time.Duration) {
	p := r.http.throttle
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = rate.NewLimiter(rate.Every(interval), atOnce)
}

// SetIncrement sets how many objects are taken for what changed.
func (r *Repository) SetIncrement(n int) { r.http.increment = n }

// SetSSHCloseTimeout sets how long the remote may take to end a command.
func (r *Repository) SetSSHCloseTimeout(d time.Duration) {
	r.http.client.Transport.(*sshTransport).closeTimeout = d
}

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
