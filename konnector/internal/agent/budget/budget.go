// Package budget bounds how often something is done for one claim, or for one of the
// objects by which an API is installed, whose Key has no namespace. It counts, and
// remembers what it counted until the time has come when that does not matter any
// more; what happens beyond the budget is for others to decide.
package budget

import (
	"sync"
	"time"

	"gitbind.dev/gitbridge/contract"
)

// Budget is a leaky bucket for each claim: Most at once, and one more for each Every
// that passes. Its methods may be called by many goroutines.
type Budget struct {
	Most  int
	Every time.Duration

	mu     sync.Mutex
	levels map[contract.Key]level
}

// level is how full a bucket was at a time.
type level struct {
	spent int
	at    time.Time
}

// Spend counts one.
func (b *Budget) Spend(key contract.Key, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.levels == nil {
		b.levels = map[contract.Key]level{}
	}
	l := b.at(key, now)
	l.spent = min(l.spent+1, b.Most)
	b.levels[key] = l
	if len(b.levels) > 2*b.Most {
		b.forgetOne(now)
	}
}

// Rest is how long until there is something left to spend; 0 where there is.
func (b *Budget) Rest(key contract.Key, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.at(key, now)
	if l.spent < b.Most {
		return 0
	}
	return l.at.Add(b.Every).Sub(now)
}

// Reset forgets what was spent.
func (b *Budget) Reset(key contract.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.levels, key)
}

// at is a bucket now, as far as whole ones have leaked out of it.
func (b *Budget) at(key contract.Key, now time.Time) level {
	l, ok := b.levels[key]
	leaked := int(now.Sub(l.at) / b.Every)
	if !ok || leaked >= l.spent {
		return level{at: now}
	}
	if leaked > 0 {
		l.spent, l.at = l.spent-leaked, l.at.Add(time.Duration(leaked)*b.Every)
	}
	return l
}

// forgetOne looks at a few buckets, and forgets those that are empty by now: each
// call adds at most one, and forgets more while there are such.
func (b *Budget) forgetOne(now time.Time) {
	const looks = 4
	n := 0
	for key := range b.levels {
		if b.at(key, now).spent == 0 {
			delete(b.levels, key)
		}
		if n++; n == looks {
			return
		}
	}
}
