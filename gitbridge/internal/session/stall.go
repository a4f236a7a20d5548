package session

import (
	"slices"
	"strings"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
)

// Stall says why nothing at all is done, nil to go on.
func (s *Session) Stall(h *Hold) {
	s.mu.Lock()
	was := s.stalled
	s.stalled = h
	if h == nil {
		s.anew = false
	}
	main := s.view.Main
	s.mu.Unlock()
	if was == h || was != nil && h != nil && *was == *h {
		return
	}
	s.options.Changed()
	if h == nil && main != nil {
		s.options.Began()
		s.enqueueAll(main)
	}
}

// IsStalled reports whether Stall said so.
func (s *Session) IsStalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stalled != nil
}

// Suspend stops everything, or lets it go on.
func (s *Session) Suspend(yes bool) {
	s.mu.Lock()
	was, main := s.suspended, s.view.Main
	s.suspended = yes
	s.mu.Unlock()
	if was && !yes && main != nil {
		s.options.Began()
		s.enqueueAll(main)
	}
}

// Stalled is why nothing at all is done, nil if it is.
func (s *Session) Stalled() *Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended {
		return &Hold{"Suspended", "spec.suspended is set: nothing is applied, deleted or answered. What is pushed meanwhile is acted on afterwards"}
	}
	return s.stalled
}

// IsAnew reports whether the repository was answered before this ClusterBinding
// was made, and whether all is there that was applied then is not known yet.
func (s *Session) IsAnew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.anew
}

// Limits say how many may go at once.
func (s *Session) Limits() breaker.Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits
}

// SetLimits says how many may go at once, from now on.
func (s *Session) SetLimits(l breaker.Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
}

// Recreate names what a person wants made anew if it is missing: paths of claims
// or of folders of them, by commas or lines.
func (s *Session) Recreate(list string) {
	s.mu.Lock()
	same := s.recreate == list
	if !same {
		s.recreate, s.recreated = list, ""
	}
	main := s.view.Main
	s.mu.Unlock()
	if same || list == "" {
		return
	}
	for e := range main.List(contract.Root) {
		if s.Recreates(e.Path) {
			s.options.Enqueue(e.Path, true)
		}
	}
}

// Recreating is what is to be made anew, "" for nothing or when it is done.
func (s *Session) Recreating() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recreate == s.recreated {
		return ""
	}
	return s.recreate
}

// Recreates reports whether a claim is to be made anew if it is missing.
func (s *Session) Recreates(path string) bool {
	list := s.Recreating()
	return list != "" && slices.ContainsFunc(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '\n' || r == ' ' }), func(entry string) bool {
		return path == entry || strings.HasPrefix(path, strings.TrimSuffix(entry, "/")+"/")
	})
}

// Recreated says that all of a list is there.
func (s *Session) Recreated(list string) {
	s.mu.Lock()
	s.recreated = list
	s.mu.Unlock()
	s.options.Changed()
}

// IsRecreated reports whether all of a list is there.
func (s *Session) IsRecreated(list string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list != "" && s.recreated == list
}
