package claim

import (
	"sync"

	"gitbind.dev/gitbridge/contract"
)

// slots let a few claims at a time do what can wait, so that in a rush the API
// server is left to those who cannot wait: people who apply, and what they
// applied. Who has no slot is called when there is one, and then does at once
// all that has come up meanwhile.
type slots struct {
	most int

	mu   sync.Mutex
	used int
	// waiting are in order those to be called, and each is in the set.
	waiting []contract.Key
	set     map[contract.Key]struct{}
}

// take takes a slot, if there is one; otherwise the claim will be called.
func (s *slots) take(key contract.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used < s.most {
		s.used++
		return true
	}
	if _, ok := s.set[key]; !ok {
		if s.set == nil {
			s.set = map[contract.Key]struct{}{}
		}
		s.set[key] = struct{}{}
		s.waiting = append(s.waiting, key)
	}
	return false
}

func (s *slots) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
}

// next are claims to call, as many as there are slots.
func (s *slots) next() []contract.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(s.most-s.used, len(s.waiting))
	if n <= 0 {
		return nil
	}
	called := s.waiting[:n:n]
	for _, key := range called {
		delete(s.set, key)
	}
	if s.waiting = s.waiting[n:]; len(s.waiting) == 0 {
		s.waiting, s.set = nil, nil
	}
	return called
}
