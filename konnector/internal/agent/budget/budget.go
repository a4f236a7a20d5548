// Package budget bounds how often something is done for one claim; for one of the
// objects by which an API is installed, whose Key has no namespace; or for all claims of a
// namespace, whose Key has no name. It counts, and remembers what it counted until the
// time has come when that does not matter any more; what happens beyond the budget is for
// others to decide.
package budget

import (
	"sync"
	"time"

	"gitbind.dev/gitbridge/contract"
)

// Budget is a leaky bucket for each Key: Most at once, and one more for each Every
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

// Spend counts n, which is at least one. What was beyond Most before is not held against anybody.
func (b *Budget) Spend(key contract.Key, n int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spend(key, n, now)
}

// Take counts n, as Spend, and reports true, if there is something left to spend. That need not be
// all of n: then what comes next waits for the rest of it, too.
func (b *Budget) Take(key contract.Key, n int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at(key, now).spent >= b.Most {
		return false
	}
	b.spend(key, n, now)
	return true
}

// GiveBack takes back what was counted by Take, and not used.
func (b *Budget) GiveBack(key contract.Key, n int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.at(key, now); l.spent > n {
		l.spent -= n
		b.levels[key] = l
		return
	}
	delete(b.levels, key)
}

func (b *Budget) spend(key contract.Key, n int, now time.Time) {
	if b.levels == nil {
		b.levels = map[contract.Key]level{}
	}
	l := b.at(key, now)
	l.spent = min(l.spent, b.Most-1) + n
	b.levels[key] = l
	b.forgetSome(now)
}

// Rest is how long until there is something left to spend; 0 where there is.
func (b *Budget) Rest(key contract.Key, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.at(key, now)
	if l.spent < b.Most {
		return 0
	}
	return l.at.Add(time.Duration(l.spent-b.Most+1) * b.Every).Sub(now)
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

// forgetSome looks at a few buckets, and forgets those that are empty by now: each
// call adds at most one, and forgets more while there are such.
func (b *Budget) forgetSome(now time.Time) {
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
