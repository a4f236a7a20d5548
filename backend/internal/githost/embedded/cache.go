package embedded

import (
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/utils/lru"
)

// objectOverhead is about what an object takes in a cache beside its content, in bytes.
const objectOverhead = 256

// caches are those of all repositories. Together they take no more than a limit: the one of the
// repository that was pushed to longest ago is emptied first.
type caches struct {
	// limit and limitOfEach are in bytes.
	limit, limitOfEach int
	// pushed are of type *cache, by themselves.
	pushed *lru.Cache

	// putting guards all sizes.
	putting sync.Mutex
	size    int
}

// newCaches has caches of limitOfEach bytes, which is no more than limit.
func newCaches(limit, limitOfEach int) *caches {
	return &caches{limit: limit, limitOfEach: limitOfEach, pushed: lru.NewWithEvictionFunc(0, func(_ lru.Key, c any) {
		c.(*cache).objects.Clear()
	})}
}

// cache remembers commits and root trees of one repository, the least recently
// used of them being dropped. What it holds never changes (an object's name is
// its content), so it needs no invalidation: a push on top of the last one
// finds what it is compared with here, without asking git.
type cache struct {
	all *caches
	// objects are of type object, by plumbing.Hash.
	objects *lru.Cache
	// size is that of all objects together.
	size int
}

func (a *caches) open() *cache {
	c := &cache{all: a}
	// Their number is not bounded.
	c.objects = lru.NewWithEvictionFunc(0, func(_ lru.Key, o any) { c.grow(-sizeOf(o.(object))) })
	return c
}

func sizeOf(o object) int { return len(o.Data) + objectOverhead }

func (c *cache) grow(by int) {
	c.size += by
	c.all.size += by
}

func (c *cache) get(name plumbing.Hash) (object, bool) {
	o, ok := c.objects.Get(name)
	if !ok {
		return object{}, false
	}
	return o.(object), true
}

// put keeps an object, unless it is beyond an eighth of the cache.
func (c *cache) put(name plumbing.Hash, o object) {
	c.all.putting.Lock()
	defer c.all.putting.Unlock()
	c.all.pushed.Add(c, c)
	if _, ok := c.get(name); ok || sizeOf(o) > c.all.limitOfEach/8 {
		return
	}
	c.objects.Add(name, o)
	for c.grow(sizeOf(o)); c.size > c.all.limitOfEach; {
		c.objects.RemoveOldest()
	}
	for c.all.size > c.all.limit {
		c.all.pushed.RemoveOldest()
	}
}
