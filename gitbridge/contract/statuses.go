package contract

import "sync"

// Statuses remembers the ClaimStatuses that were decoded last, by the hash of
// their file: one and the same is looked at several times while a claim comes
// up, and to read YAML takes most of such a look. Its zero value is ready.
type Statuses struct {
	mu sync.Mutex
	// older is what was there before recent, and goes when that is full.
	recent, older map[string]*Status
}

// recentStatuses is how many are kept, and at most twice as many for a while.
const recentStatuses = 1000

// Decode is DecodeStatus for a file that has a hash; read is asked for the file
// if it is not remembered. What is returned belongs to the caller.
func (s *Statuses) Decode(hash string, read func() ([]byte, error)) (*Status, error) {
	if known := s.known(hash); known != nil {
		return known.copy(), nil
	}
	data, err := read()
	if err != nil {
		return nil, err
	}
	decoded, err := DecodeStatus(data)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent == nil || len(s.recent) >= recentStatuses {
		s.recent, s.older = make(map[string]*Status, recentStatuses), s.recent
	}
	s.recent[hash] = decoded.copy()
	return decoded, nil
}

func (s *Statuses) known(hash string) *Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.recent[hash]; known != nil {
		return known
	}
	return s.older[hash]
}

func (s *Status) copy() *Status {
	out := *s
	if s.Problem != nil {
		problem := *s.Problem
		out.Problem = &problem
	}
	if s.Effective != nil {
		out.Effective = copyOf(s.Effective).(map[string]any)
	}
	if s.Status != nil {
		out.Status = copyOf(s.Status).(map[string]any)
	}
	return &out
}

// copyOf copies what JSON is made of.
func copyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = copyOf(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = copyOf(value)
		}
		return out
	}
	return v
}
