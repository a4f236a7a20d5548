package claim

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cache is what spares work, and nothing that a decision could be wrong
// without.
type cache struct {
	mu sync.Mutex
	// applied are the objects that this process applied and that watching has
	// not shown yet.
	applied map[string]*unstructured.Unstructured
	// refused are the last refusals, so that a refused file is not sent to the
	// API server for each event on its object.
	refused map[string]refusal
	budgets map[string]budget
}

type refusal struct {
	file    string
	outcome outcome
	until   time.Time
}

// newest is the newer one of what watching shows and what was applied.
func (c *cache) newest(path string, watched *unstructured.Unstructured) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	applied := c.applied[path]
	if applied == nil {
		return watched
	}
	if watched != nil && watched.GetUID() == applied.GetUID() && version(watched) < version(applied) {
		return applied
	}
	if watched == nil {
		// Not shown yet, or gone again: which of the two, the API server knows.
		return nil
	}
	delete(c.applied, path)
	return watched
}

func (c *cache) wasApplied(path string, u *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applied == nil {
		c.applied = map[string]*unstructured.Unstructured{}
	}
	c.applied[path] = u
	delete(c.refused, path)
}

// isUnseen reports whether an object was applied that watching has not shown yet.
func (c *cache) isUnseen(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied[path] != nil
}

// gone says that the API server has no object.
func (c *cache) gone(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.applied, path)
}

// version is an object's resourceVersion, which grows.
func version(u *unstructured.Unstructured) uint64 {
	v, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}

func (c *cache) refuse(path string, r refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = map[string]refusal{}
	}
	c.refused[path] = r
}

// forget drops the refusal of a claim that is gone.
func (c *cache) forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused, path)
}

// refusal is the last one of a path, if it is of this file and still stands.
func (c *cache) refusal(path, file string, now time.Time) (outcome, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.refused[path]
	if !ok || r.file != file || !now.Before(r.until) {
		return outcome{}, false
	}
	return r.outcome, true
}

// spend takes a commit out of a path's budget, or says how long to wait for one.
func (c *cache) spend(path string, now time.Time) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.budgets == nil {
		c.budgets = map[string]budget{}
	}
	c.budgets[path], wait = c.budgets[path].spend(now)
	c.forgetFull(now)
	return wait
}

// forgetFull drops budgets that are full again, now and then.
func (c *cache) forgetFull(now time.Time) {
	const many = 1000
	if len(c.budgets) < many || len(c.budgets)&(len(c.budgets)-1) != 0 {
		return
	}
	for path, b := range c.budgets {
		if now.Sub(b.at) > burst*every {
			delete(c.budgets, path)
		}
	}
}

const (
	// The first change of a claim's status is committed at once. One that comes
	// within gatherAfter waits for more during gather, as controllers go back and
	// forth before they are done; and there is a bound to how many there are.
	gatherAfter = time.Second
	gather      = 60 * time.Millisecond
	burst       = 3
	every       = time.Second
)

// budget is how many commits a claim's status may still cause, and when.
type budget struct {
	spent float64
	at    time.Time
	// due is until when changes are gathered.
	due time.Time
}

// spend takes a commit out of the budget, or says how long to wait for one.
func (b budget) spend(now time.Time) (budget, time.Duration) {
	if b.due.IsZero() && !b.at.IsZero() && now.Sub(b.at) < gatherAfter {
		b.due = now.Add(gather)
	}
	if wait := b.due.Sub(now); wait > 0 {
		return b, wait
	}
	spent := max(0, b.spent-float64(now.Sub(b.at))/float64(every))
	if over := spent + 1 - burst; over > 0 {
		return b, max(time.Duration(over*float64(every)), time.Millisecond)
	}
	return budget{spent: spent + 1, at: now}, 0
}
