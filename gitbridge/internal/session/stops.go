package session

import (
	"context"
	"sync"
)

// Stop is why nothing at all is done.
type Stop struct {
	Reason  string
	Message string
}

// Stops say why nothing at all is done for an app cluster.
type Stops struct {
	changed func()
	// resume has everything looked at again.
	resume func()

	mu sync.Mutex
	// stop is what was found, and unchecked says that this session begins on a branch
	// status that is not its own.
	stop                 *Stop
	unchecked, suspended bool
	// resumed is closed, and replaced, when the session is not suspended any more.
	resumed chan struct{}
}

// check stops until it is known whether all is there that was applied before.
func (s *Stops) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unchecked, s.stop = true, &Stop{"Checking", "this ClusterBinding is new, but its repository was answered before: nothing is done until it is known whether all services are there"}
}

// Set says why nothing at all is done, nil to go on.
func (s *Stops) Set(stop *Stop) {
	s.mu.Lock()
	was := s.stop
	s.stop = stop
	if stop == nil {
		s.unchecked = false
	}
	s.mu.Unlock()
	if was == stop || was != nil && stop != nil && *was == *stop {
		return
	}
	s.changed()
	if stop == nil {
		s.resume()
	}
}

// IsSet reports whether Set said so.
func (s *Stops) IsSet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop != nil
}

// Suspend stops everything, or lets it go on.
func (s *Stops) Suspend(yes bool) {
	s.mu.Lock()
	was := s.suspended
	s.suspended = yes
	if was && !yes {
		close(s.resumed)
		s.resumed = make(chan struct{})
	}
	s.mu.Unlock()
	if was && !yes {
		s.resume()
	}
}

func (s *Stops) isSuspended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended
}

// untilResumed waits while the session is suspended.
func (s *Stops) untilResumed(ctx context.Context) error {
	for {
		s.mu.Lock()
		suspended, resumed := s.suspended, s.resumed
		s.mu.Unlock()
		if !suspended {
			return nil
		}
		select {
		case <-resumed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Why is why nothing at all is done, nil if it is.
func (s *Stops) Why() *Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended {
		return &Stop{"Suspended", "spec.suspended is set: nothing is applied, deleted or answered. What is pushed meanwhile is acted on afterwards"}
	}
	return s.stop
}

// IsUnchecked reports whether the repository was answered before this ClusterBinding
// was made, and whether all is there that was applied then is not known yet.
func (s *Stops) IsUnchecked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unchecked
}
