package session

// SetUnanswered has it as if commits had named so many claims that are not answered.
func (s *Session) SetUnanswered(claims int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered.extent.Paths = claims
}
