package embedded

import (
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// TestTheCacheIsBoundedInBytes puts objects of 10 bytes into a cache of 100.
func TestTheCacheIsBoundedInBytes(t *testing.T) {
	name := func(i int) plumbing.Hash { return plumbing.Hash{byte(i)} }
	ten := object{Type: plumbing.TreeObject, Data: make([]byte, 10)}
	c := newCache(100)
	for i := range 10 {
		c.put(name(i), ten)
		c.put(name(i), ten)
	}
	if c.size != 100 || c.objects.Len() != 10 {
		t.Fatalf("%d bytes in %d objects, put twice each", c.size, c.objects.Len())
	}
	if o, ok := c.get(name(0)); !ok || o.Type != plumbing.TreeObject || len(o.Data) != 10 {
		t.Fatalf("got %v, %v", o, ok)
	}
	c.put(name(10), object{Data: make([]byte, 12)})
	for i, want := range map[int]bool{0: true, 1: false, 2: false, 3: true, 10: true} {
		if _, ok := c.get(name(i)); ok != want {
			t.Errorf("object %d is there: %v; the two that were not used for longest make room", i, ok)
		}
	}
	if c.put(name(11), object{Data: make([]byte, 13)}); c.size != 92 {
		t.Errorf("%d bytes: what takes more than an eighth is kept", c.size)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 256 {
				c.put(name(i), ten)
				c.get(name(i / 2))
			}
		})
	}
	all.Wait()
	if c.size > 100 || c.size != 10*c.objects.Len() {
		t.Errorf("%d bytes in %d objects after all have put at once", c.size, c.objects.Len())
	}
}
