package githost

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"gitbind.dev/backend/internal/ratelimit"
)

// paceBurst is how often a host elsewhere is asked at once because of one cluster: a backend that
// starts looks at all of some hundred open changes.
const paceBurst = 300

// Pace bounds how much a host elsewhere is asked because of what happens to each cluster. Each
// request counts, and work that can wait does until the requests before it were not too many. Nil
// has no bound.
type Pace struct {
	// Every is how long it takes until there may be another request, over time.
	Every time.Duration
	each  ratelimit.Keyed
}

func (p *Pace) of(cluster string) *rate.Limiter {
	return p.each.Limiter(cluster, rate.Every(p.Every), paceBurst)
}

// Wait is how long work for a cluster must wait that asks the host, 0 if it need not.
func (p *Pace) Wait(cluster string) time.Duration {
	if p == nil {
		return 0
	}
	return max(time.Duration((1-p.of(cluster).Tokens())*float64(p.Every)), 0)
}

type paced struct{}

// With is a context of work for a cluster, whose requests count.
func (p *Pace) With(ctx context.Context, cluster string) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, paced{}, p.of(cluster))
}

// CountRequest counts a request to the host for the cluster that its context is about, if any.
func CountRequest(ctx context.Context) {
	if of, ok := ctx.Value(paced{}).(*rate.Limiter); ok {
		of.Reserve()
	}
}
