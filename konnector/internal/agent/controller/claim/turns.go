package claim

import (
	"sync"

	"gitbind.dev/gitbridge/contract"
)

// turns lets a few claims at a time do what can wait, so that in a rush the API
// server is left to those who cannot wait: people who apply, and what they
// applied. Who has no turn is called when there is one, and then does at once
// all that has come up meanwhile.
type turns struct {
	most int

	mu    sync.Mutex
	taken int
	// waiting are in order those to be called, and each is in the set.
	waiting []contract.Key
	set     map[contract.Key]struct{}
}

// take takes a turn, if there is one; otherwise the claim will be called.
func (t *turns) take(key contract.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken < t.most {
		t.taken++
		return true
	}
	if _, ok := t.set[key]; !ok {
		if t.set == nil {
			t.set = map[contract.Key]struct{}{}
		}
		t.set[key] = struct{}{}
		t.waiting = append(t.waiting, key)
	}
	return false
}

func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
}

// next are claims to call, as many as there are turns.
func (t *turns) next() []contract.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(t.most-t.taken, len(t.waiting))
	if n <= 0 {
		return nil
	}
	called := t.waiting[:n:n]
	for _, key := range called {
		delete(t.set, key)
	}
	if t.waiting = t.waiting[n:]; len(t.waiting) == 0 {
		t.waiting = nil
	}
	return called
}
