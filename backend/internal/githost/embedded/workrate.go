package embedded

import (
	"context"
	"math"
	"os"
	"time"

	"golang.org/x/time/rate"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/ratelimit"
	"gitbind.dev/backend/internal/refusal"
)

const (
	// workPerProcessor is how many bytes a second the requests about one owner's repositories
	// may have unpacked or sent, for each processor: with what the bridge makes of it, a tenth of
	// what it can do. Those about one cluster may have workOfOne times that. workBurst is how
	// many they may have at once, and workOfASecond how many a second of a processor counts as.
	workPerProcessor = 3 << 20
	workOfOne        = 2.0 / 3
	workBurst        = 32 << 20
	workOfASecond    = 32 << 20
	// gitWork is what a process of git takes beside that, in bytes.
	gitWork = 256 << 10
)

// workRates bound how much work an owner's requests make over time, each role for itself:
// whoever has made more than that waits. The bridge reads what others have pushed, which counted.
type workRates struct {
	limits ratelimit.Keyed
	limit  rate.Limit
	burst  int
}

// begin waits until so many bytes may be worked on. Done is told how many it were.
func (w *workRates) begin(ctx context.Context, who holder, bytes int64) (done func(worked int64), err error) {
	if who.role == access.Bridge {
		return func(int64) {}, nil
	}
	account := w.limits.Limiter(who, w.limit*workOfOne, w.burst)
	cluster := w.limits.Limiter(who.byCluster(), w.limit*workOfOne, w.burst)
	owner := w.limits.Limiter(who.byOwner(), w.limit, w.burst)
	counted := min(bytes, int64(w.burst))
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for _, limiter := range []*rate.Limiter{account, cluster, owner} {
		if err := limiter.WaitN(waiting, int(counted)); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			missing := float64(counted) - limiter.Tokens()
			again := time.Duration(math.Ceil(missing/float64(limiter.Limit()))) * time.Second
			return nil, refusal.New(refusal.Unavailable, "your repositories have had the Git host work on much just now: try again in %s. A platform operator allows more (--max-work of the backend)", again)
		}
	}
	return func(worked int64) {
		w.owe(account, worked-counted)
		// What one account does must not keep others waiting for long.
		for _, shared := range []*rate.Limiter{cluster, owner} {
			w.owe(shared, min(worked, int64(w.burst))-counted)
		}
	}, nil
}

// gitWorked is as how many bytes counts what a process of git that has ended took of a processor, with the
// processes that it has waited for.
func gitWorked(p *os.ProcessState) int64 {
	if p == nil {
		return 0 // it did not begin
	}
	return int64((p.UserTime() + p.SystemTime()).Seconds() * workOfASecond)
}

// owe counts what was worked on already.
func (w *workRates) owe(limiter *rate.Limiter, bytes int64) {
	for ; bytes > 0; bytes -= int64(w.burst) {
		limiter.ReserveN(time.Now(), int(min(bytes, int64(w.burst))))
	}
}
