package embedded

import (
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// unit is the size of the smallest object in these tests.
const unit = 10 + objectOverhead

func named(i int) plumbing.Hash { return plumbing.Hash{byte(i)} }

// sized is an object of so many tenths of a unit.
func sized(tenths int) object {
	return object{Type: plumbing.TreeObject, Data: make([]byte, tenths*unit/10-objectOverhead)}
}

// TestTheCacheIsBoundedInBytes puts objects into a cache for ten of them.
func TestTheCacheIsBoundedInBytes(t *testing.T) {
	c := newCaches(10*unit, 10*unit).open()
	for i := range 10 {
		c.put(named(i), sized(10))
		c.put(named(i), sized(10))
	}
	if c.size != 10*unit || c.objects.Len() != 10 {
		t.Fatalf("%d bytes in %d objects, put twice each", c.size, c.objects.Len())
	}
	if o, ok := c.get(named(0)); !ok || o.Type != plumbing.TreeObject || len(o.Data) != 10 {
		t.Fatalf("got %v, %v", o, ok)
	}
	c.put(named(10), sized(12))
	for i, want := range map[int]bool{0: true, 1: false, 2: false, 3: true, 10: true} {
		if _, ok := c.get(named(i)); ok != want {
			t.Errorf("object %d is there: %v; the two that were not used for longest make room", i, ok)
		}
	}
	before := c.size
	if c.put(named(11), sized(13)); c.size != before {
		t.Errorf("%d bytes: what takes more than an eighth is kept", c.size)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 256 {
				c.put(named(i), sized(10))
				c.get(named(i / 2))
			}
		})
	}
	all.Wait()
	if c.size > 10*unit || c.size != unit*c.objects.Len() {
		t.Errorf("%d bytes in %d objects after all have put at once", c.size, c.objects.Len())
	}
}

// TestH2_TheCachesOfAllRepositoriesAreBoundedTogether has a limit for three and a half full ones.
func TestH2_TheCachesOfAllRepositoriesAreBoundedTogether(t *testing.T) {
	all := newCaches(35*unit, 10*unit)
	caches := make([]*cache, 100)
	fill := func(i int) {
		for name := range 10 {
			caches[i].put(named(name), sized(10))
		}
	}
	for i := range caches {
		caches[i] = all.open()
		fill(i)
		fill(0) // is pushed to all the time
	}
	total := 0
	for i, c := range caches {
		total += c.size
		if _, ok := c.get(named(9)); ok != (i == 0 || i >= 98) {
			t.Errorf("cache %d has its last object: %v", i, ok)
		}
	}
	if total != 30*unit || all.size != total {
		t.Errorf("%d bytes in all caches, and %d are counted", total, all.size)
	}
	var running sync.WaitGroup
	for i := range caches {
		running.Go(func() { fill(i) })
	}
	running.Wait()
	if all.size > all.limit {
		t.Errorf("%d bytes after all were pushed to at once", all.size)
	}
}
