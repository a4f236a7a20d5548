package githost

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"gitbind.dev/backend/internal/ratelimit"
)

const (
	// paceEvery is how often a host elsewhere is asked because of one cluster over time, and
	// paceBurst how many times at once: a backend that starts looks at all of some hundred open
	// changes. Who pushes all the time has a seventh of the 5000 requests an hour that GitHub
	// lets all clusters share.
	paceEvery = 5 * time.Second
	paceBurst = 300
)

// Pace bounds how much a host elsewhere is asked because of what happens to each cluster. Each
// request counts, and work that can wait does until the requests before it were not too many. The
// zero value is ready, and nil has no bound.
type Pace struct{ each ratelimit.Keyed }

func (p *Pace) of(cluster string) *rate.Limiter {
	return p.each.Limiter(cluster, rate.Every(paceEvery), paceBurst)
}

// Wait is how long work for a cluster must wait that asks the host, 0 if it need not.
func (p *Pace) Wait(cluster string) time.Duration {
	if p == nil {
		return 0
	}
	return max(time.Duration((1-p.of(cluster).Tokens())*float64(paceEvery)), 0)
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
