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
	path string
	at   time.Time
	// index is where it is in the heap.
	index int
}

// tombstones are a heap with the oldest one on top, and one for each path: a path may get
// new ones as fast as commits name claims at it.
type tombstones struct {
	heap   []*tombstone
	byPath map[string]*tombstone
}

func (ts *tombstones) Len() int           { return len(ts.heap) }
func (ts *tombstones) Less(i, j int) bool { return ts.heap[i].at.Before(ts.heap[j].at) }
func (ts *tombstones) Swap(i, j int) {
	h := ts.heap
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (ts *tombstones) Push(x any) {
	t := x.(*tombstone)
	t.index = len(ts.heap)
	ts.heap = append(ts.heap, t)
	ts.byPath[t.path] = t
}
func (ts *tombstones) Pop() any {
	last := len(ts.heap) - 1
	t := ts.heap[last]
	ts.heap[last], ts.heap = nil, ts.heap[:last]
	delete(ts.byPath, t.path)
	return t
}

// NoteTombstone notes a tombstone, so that it is taken away when its time has come, with
// the next commit and never with one of its own. Since is that of the tombstone.
// One that says nothing of the kind stays.
func (b *Branch) NoteTombstone(path, since string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteTombstone(path, since)
}

// noteTombstone notes the tombstone of a path, and with "" that it has another answer.
func (b *Branch) noteTombstone(path, since string) {
	if known := b.tombstones.byPath[path]; known != nil {
		heap.Remove(&b.tombstones, known.index)
	}
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		heap.Push(&b.tombstones, &tombstone{path: path, at: at})
	}
}

// removeExpired takes tombstones away whose time is over. They are forgotten when they
// are gone from a tree that was pushed.
func (b *Branch) removeExpired(t *store.Tree) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var again []*tombstone
	defer func() {
		for _, g := range again {
			heap.Push(&b.tombstones, g)
		}
	}()
	expired := func(at time.Time) bool { return b.now().Sub(at) >= Kept }
	for b.tombstones.Len() > 0 && len(again) < atOnce && expired(b.tombstones.heap[0].at) {
		g := b.tombstones.heap[0]
		at, ok := tombstoneSince(t, g.path)
		if ok && !expired(at) {
			// A newer one was written since this one was seen.
			g.at = at
			heap.Fix(&b.tombstones, 0)
			continue
		}
		heap.Pop(&b.tombstones)
		if !ok {
			continue
		}
		// Whether it comes to a push is not known yet.
		again = append(again, g)
		if err := t.Remove(g.path); err != nil && !errors.Is(err, store.ErrNotExist) {
			return err
		}
	}
	return nil
}

// tombstoneSince is since when a path has its tombstone, if it has one that says so.
func tombstoneSince(t *store.Tree, path string) (at time.Time, ok bool) {
	data, err := t.Read(path)
	if err != nil {
		return at, false
	}
	s, err := contract.DecodeStatus(data)
	if err != nil || s.Result != contract.Gone {
		return at, false
	}
	at, err = time.Parse(time.RFC3339, s.Since)
	return at, err == nil
}
