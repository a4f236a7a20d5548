package embedded

import (
	"container/list"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// cache remembers commits and root trees of one repository, the least recently
// used of them being dropped. What it holds never changes (an object's name is
// its content), so it needs no invalidation: a push on top of the last one
// finds what it is compared with here, without asking git.
type cache struct {
	mu      sync.Mutex
	limit   int
	size    int
	byName  map[plumbing.Hash]*list.Element
	recency *list.List
}

type cached struct {
	name plumbing.Hash
	object
}

// newCache is a cache of limit bytes. Objects beyond an eighth of it are never
// kept.
func newCache(limit int) *cache {
	return &cache{limit: limit, byName: map[plumbing.Hash]*list.Element{}, recency: list.New()}
}

func (c *cache) get(name plumbing.Hash) (object, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byName[name]
	if !ok {
		return object{}, false
	}
	c.recency.MoveToFront(e)
	return e.Value.(cached).object, true
}

func (c *cache) put(name plumbing.Hash, o object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byName[name]; ok || len(o.Data) > c.limit/8 {
		return
	}
	c.byName[name] = c.recency.PushFront(cached{name, o})
	c.size += len(o.Data)
	for c.size > c.limit {
		oldest := c.recency.Back()
		drop := c.recency.Remove(oldest).(cached)
		delete(c.byName, drop.name)
		c.size -= len(drop.Data)
	}
}
