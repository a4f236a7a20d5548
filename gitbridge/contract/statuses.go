package contract

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/utils/lru"
)

// Statuses remembers the ClaimStatuses that were used last, by the hash of
// their file: one and the same is looked at several times while a claim comes
// up, and to read YAML takes most of such a look. Its zero value is ready.
type Statuses struct {
	begin sync.Once
	// decoded are *Status.
	decoded *lru.Cache
}

// maxStatuses is how many are kept.
const maxStatuses = 1000

// Decode is DecodeStatus for a file that has a hash; read is asked for the file
// if it is not remembered. What is returned belongs to the caller.
func (s *Statuses) Decode(hash string, read func() ([]byte, error)) (*Status, error) {
	s.begin.Do(func() { s.decoded = lru.New(maxStatuses) })
	if known, ok := s.decoded.Get(hash); ok {
		return known.(*Status).copy(), nil
	}
	data, err := read()
	if err != nil {
		return nil, err
	}
	decoded, err := DecodeStatus(data)
	if err != nil {
		return nil, err
	}
	s.decoded.Add(hash, decoded.copy())
	return decoded, nil
}

func (s *Status) copy() *Status {
	out := *s
	if s.Problem != nil {
		problem := *s.Problem
		out.Problem = &problem
	}
	out.Withheld = maps.Clone(s.Withheld)
	if s.Secrets != nil {
		secrets := *s.Secrets
		secrets.Versions = maps.Clone(s.Secrets.Versions)
		out.Secrets = &secrets
	}
	if s.Inputs != nil {
		inputs := *s.Inputs
		inputs.Objects, inputs.Refused = slices.Clone(s.Inputs.Objects), maps.Clone(s.Inputs.Refused)
		out.Inputs = &inputs
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
