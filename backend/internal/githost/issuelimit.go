package githost

import (
	"time"

	"gitbind.dev/backend/internal/ratelimit"
)

const (
	// issueEvery is how often an agent gets a credential, and issueBurst how many at once, such
	// as when somebody connects a cluster twice: all clusters share what a host allows.
	issueEvery = 2 * time.Minute
	issueBurst = 3
)

// IssueLimit bounds how often a host is asked for a credential of each agent, whatever its own one
// lets it ask for. The zero value is ready.
type IssueLimit struct{ each ratelimit.Keyed }

// May is a TooOftenError if who asks for a cluster's agent must wait. Undo has it not count, as
// where a host is away and the caller is slow to ask again.
func (l *IssueLimit) May(cluster, who string, now time.Time) (undo func(), err error) {
	undo, wait := l.each.Take([2]string{cluster, who}, issueEvery, issueBurst, now)
	if wait > 0 {
		return nil, &TooOftenError{Until: now.Add(wait)}
	}
	return undo, nil
}
