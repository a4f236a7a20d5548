package embedded

import (
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/utils/lru"
)

// cache remembers commits and root trees of one repository, the least recently
// used of them being dropped. What it holds never changes (an object's name is
// its content), so it needs no invalidation: a push on top of the last one
// finds what it is compared with here, without asking git.
type cache struct {
	// objects are of type object, by plumbing.Hash.
	objects *lru.Cache
	limit   int

	// putting guards size, which is that of all objects together.
	putting sync.Mutex
	size    int
}

// newCache is a cache of limit bytes. Objects beyond an eighth of it are never
// kept.
func newCache(limit int) *cache {
	c := &cache{limit: limit}
	// Their number is not bounded.
	c.objects = lru.NewWithEvictionFunc(0, func(_ lru.Key, o any) { c.size -= len(o.(object).Data) })
	return c
}

func (c *cache) get(name plumbing.Hash) (object, bool) {
	o, ok := c.objects.Get(name)
	if !ok {
		return object{}, false
	}
	return o.(object), true
}

func (c *cache) put(name plumbing.Hash, o object) {
	c.putting.Lock()
	defer c.putting.Unlock()
	if _, ok := c.get(name); ok || len(o.Data) > c.limit/8 {
		return
	}
	c.objects.Add(name, o)
	for c.size += len(o.Data); c.size > c.limit; {
		c.objects.RemoveOldest()
	}
}
