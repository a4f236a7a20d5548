package onboarding

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"gitbind.dev/backend/internal/login"
)

const (
	// askPerSecond and askAtOnce bound what one person asks for: each request is one
	// or more of the control plane's API server.
	askPerSecond, askAtOnce = 20, 100
	// askKept is how long somebody who asks nothing is remembered, and askMost how
	// many are.
	askKept, askMost = time.Minute, 10_000
)

// asking has a limiter for each person, by issuer and subject.
type asking struct {
	once sync.Once
	of   *utilcache.LRUExpireCache
}

func (a *asking) may(who login.Identity) bool {
	a.once.Do(func() { a.of = utilcache.NewLRUExpireCache(askMost) })
	key := [2]string{who.Issuer, who.Subject}
	limiter, ok := a.of.Get(key)
	if !ok {
		limiter = rate.NewLimiter(askPerSecond, askAtOnce)
	}
	a.of.Add(key, limiter, askKept)
	return limiter.(*rate.Limiter).Allow()
}
