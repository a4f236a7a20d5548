package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
)

const (
	// askPerSecond and askAtOnce bound what one person asks for: each request is one
	// or more of the control plane's API server.
	askPerSecond, askAtOnce = 20, 100
	// askKept is how long somebody who asks nothing is remembered, and askMost how
	// many are.
	askKept, askMost = time.Minute, 10_000
)

// Asking bounds what each person asks for, by issuer and subject.
type Asking struct {
	once sync.Once
	of   *utilcache.LRUExpireCache
}

// May refuses somebody who asks too often.
func (a *Asking) May(who login.Identity) error {
	a.once.Do(func() { a.of = utilcache.NewLRUExpireCache(askMost) })
	key := [2]string{who.Issuer, who.Subject}
	limiter, ok := a.of.Get(key)
	if !ok {
		limiter = rate.NewLimiter(askPerSecond, askAtOnce)
	}
	a.of.Add(key, limiter, askKept)
	if limiter.(*rate.Limiter).Allow() {
		return nil
	}
	return refusal.New(refusal.TooMany, "you make more than %d requests a second: try again", askPerSecond)
}
