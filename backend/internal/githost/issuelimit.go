package githost

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// issueEvery is how often an agent gets a credential, and issueBurst how many at once, such
	// as when somebody connects a cluster twice: all clusters share what a host allows.
	issueEvery = 2 * time.Minute
	issueBurst = 3
	// issueMost is how many agents are remembered. Each is for as long as it is limited.
	issueMost = 10_000
)

// IssueLimit bounds how often a host is asked for a credential of each agent, whatever its own one
// lets it ask for. The zero value is ready.
type IssueLimit struct {
	once sync.Once
	of   *utilcache.LRUExpireCache
}

// May is a TooOftenError if who asks for a cluster's agent must wait. Undo has it not count, as
// where a host is away and whoever asks is slow to ask again.
func (l *IssueLimit) May(cluster, who string, now time.Time) (undo func(), err error) {
	l.once.Do(func() { l.of = utilcache.NewLRUExpireCache(issueMost) })
	key := [2]string{cluster, who}
	limiter, ok := l.of.Get(key)
	if !ok {
		limiter = rate.NewLimiter(rate.Every(issueEvery), issueBurst)
	}
	l.of.Add(key, limiter, issueBurst*issueEvery)
	next := limiter.(*rate.Limiter).ReserveN(now, 1)
	if delay := next.DelayFrom(now); delay > 0 {
		next.CancelAt(now)
		return nil, &TooOftenError{Until: now.Add(delay)}
	}
	return func() { next.CancelAt(now) }, nil
}
