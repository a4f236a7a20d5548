package session

import (
	"maps"
	"slices"

	"gitbind.dev/gitbridge/contract"
)

// Foreign are the paths of claims that are held because objects that are not
// theirs are in their place. It is not known before all of main was looked at
// once.
func (s *Session) Foreign() (paths []string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.foreign)), s.isSurveyed()
}

// noteForeign takes note of an answer, and reports whether Foreign says something
// else by it. The caller holds s.mu.
func (s *Session) noteForeign(path string, answer *contract.Status) (changed bool) {
	knew := s.surveyed
	isForeign := answer != nil && answer.Reason == contract.Foreign
	if isForeign != s.foreign[path] {
		changed = true
		if isForeign {
			s.foreign[path] = true
		} else {
			delete(s.foreign, path)
		}
	}
	return s.isSurveyed() && (changed || !knew)
}

// isSurveyed reports whether all of a commit of main was answered once. The caller
// holds s.mu.
func (s *Session) isSurveyed() bool {
	s.surveyed = s.surveyed || s.view.Main != nil && s.Status.IsAnswered(s.view.Generation)
	return s.surveyed
}
