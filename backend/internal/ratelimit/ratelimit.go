// Package ratelimit bounds how often each of many does something: one does not use up what
// another may have. It says for how long somebody must wait, and does not wait itself.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxKeys is how many keys are remembered: those that came last.
const maxKeys = 10_000

// Keyed has a rate limiter for each key. The zero value is ready.
type Keyed struct {
	mu sync.Mutex
	of *lru.Cache
}

// Take counts one use by a key. A key may have burst uses at once, and one more each time
// that every has passed; both are always the same for it. Wait is how long it must wait, 0
// if it need not: what must wait does not count. Undo has a use not count after all, as far
// as no later one has counted on it, and is nil for what must wait.
func (k *Keyed) Take(key any, every time.Duration, burst int, now time.Time) (undo func(), wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	limiter := k.limiter(key, rate.Every(every), burst)
	// A reservation that is cancelled would keep an undo of those before it from being whole.
	if wait = time.Duration((1 - limiter.TokensAt(now)) * float64(every)); wait > 0 {
		return nil, wait
	}
	next := limiter.ReserveN(now, 1)
	return func() { next.CancelAt(now) }, 0
}

// Limiter is a key's own, for uses that are not alike. Limit and burst are always the same for it.
func (k *Keyed) Limiter(key any, limit rate.Limit, burst int) *rate.Limiter {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limiter(key, limit, burst)
}

func (k *Keyed) limiter(key any, limit rate.Limit, burst int) *rate.Limiter {
	if k.of == nil {
		k.of = lru.New(maxKeys)
	}
	v, ok := k.of.Get(key)
	if !ok {
		v = rate.NewLimiter(limit, burst)
		k.of.Add(key, v)
	}
	return v.(*rate.Limiter)
}
