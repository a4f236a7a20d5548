// Package failure keeps since when something fails, so that what passes is not told to
// the authors of files.
package failure

import (
	"sync"
	"time"
)

// TellAfter is how long something may fail before its author is told.
const TellAfter = 3 * time.Second

// Times are since when each path, or whatever else has a name, fails. The zero value is
// ready.
type Times struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// Failed notes that a path fails, and says how long it has been failing.
func (t *Times) Failed(path string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = map[string]time.Time{}
	}
	since, ok := t.since[path]
	if !ok {
		t.since[path], since = now, now
	}
	return now.Sub(since)
}

// Worked forgets the failure of a path.
func (t *Times) Worked(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.since, path)
}

// UntilTold shortens a wait so that a failure is told when it has lasted long enough,
// and not much later.
func (t *Times) UntilTold(path string, now time.Time, wait time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if since, ok := t.since[path]; ok {
		if rest := TellAfter - now.Sub(since); rest > 0 {
			return min(wait, rest)
		}
	}
	return wait
}
