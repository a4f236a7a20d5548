package statusbranch

import (
	"container/heap"
	"errors"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Kept is how long a tombstone stays.
const Kept = 30 * 24 * time.Hour

// atOnce is how many tombstones one commit takes away.
const atOnce = 100

// tombstone is one that was seen or written. It may be another answer by now.
type tombstone struct {
	path, since string
	at          time.Time
}

// tombstones are a heap with the oldest one on top.
type tombstones []tombstone

func (g tombstones) Len() int           { return len(g) }
func (g tombstones) Less(i, j int) bool { return g[i].at.Before(g[j].at) }
func (g tombstones) Swap(i, j int)      { g[i], g[j] = g[j], g[i] }
func (g *tombstones) Push(x any)        { *g = append(*g, x.(tombstone)) }
func (g *tombstones) Pop() any {
	old := *g
	last := old[len(old)-1]
	*g = old[:len(old)-1]
	return last
}

// NoteTombstone notes a tombstone, so that it is taken away when its time has come, with
// the next commit and never with one of its own. Since is that of the tombstone.
// One that says nothing of the kind stays.
func (b *Branch) NoteTombstone(path, since string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteTombstone(path, since)
}

func (b *Branch) noteTombstone(path, since string) {
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		heap.Push(&b.tombstones, tombstone{path, since, at})
	}
}

// removeExpired takes tombstones away whose time is over. They are forgotten when they
// are gone from a tree that was pushed.
func (b *Branch) removeExpired(t *store.Tree) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var again []tombstone
	cleared := 0
	for len(b.tombstones) > 0 && cleared < atOnce && b.now().Sub(b.tombstones[0].at) >= Kept {
		g := heap.Pop(&b.tombstones).(tombstone)
		if !isTombstone(t, g) {
			continue
		}
		if err := t.Remove(g.path); err != nil && !errors.Is(err, store.ErrNotExist) {
			return err
		}
		// Whether it comes to a push is not known yet.
		again = append(again, g)
		cleared++
	}
	for _, g := range again {
		heap.Push(&b.tombstones, g)
	}
	return nil
}

func isTombstone(t *store.Tree, g tombstone) bool {
	data, err := t.Read(g.path)
	if err != nil {
		return false
	}
	s, err := contract.DecodeStatus(data)
	return err == nil && s.Result == contract.Gone && s.Since == g.since
}
