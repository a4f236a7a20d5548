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

// grave is a tombstone that was seen or written. It may be another answer by now.
type grave struct {
	path, since string
	at          time.Time
}

// graves is a heap with the oldest tombstone on top.
type graves []grave

func (g graves) Len() int           { return len(g) }
func (g graves) Less(i, j int) bool { return g[i].at.Before(g[j].at) }
func (g graves) Swap(i, j int)      { g[i], g[j] = g[j], g[i] }
func (g *graves) Push(x any)        { *g = append(*g, x.(grave)) }
func (g *graves) Pop() any {
	old := *g
	last := old[len(old)-1]
	*g = old[:len(old)-1]
	return last
}

// Bury notes a tombstone, so that it is taken away when its time has come, with
// the next commit and never with one of its own. Since is that of the tombstone.
// One that says nothing of the kind stays.
func (b *Branch) Bury(path, since string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bury(path, since)
}

func (b *Branch) bury(path, since string) {
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		heap.Push(&b.graves, grave{path, since, at})
	}
}

// clear takes tombstones away whose time is over. They are forgotten when they
// are gone from a tree that was pushed.
func (b *Branch) clear(t *store.Tree) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var again []grave
	cleared := 0
	for len(b.graves) > 0 && cleared < atOnce && b.now().Sub(b.graves[0].at) >= Kept {
		g := heap.Pop(&b.graves).(grave)
		if !isGrave(t, g) {
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
		heap.Push(&b.graves, g)
	}
	return nil
}

func isGrave(t *store.Tree, g grave) bool {
	data, err := t.Read(g.path)
	if err != nil {
		return false
	}
	s, err := contract.DecodeStatus(data)
	return err == nil && s.Result == contract.Gone && s.Since == g.since
}
