package session

import (
	"context"
	"sync"

	"gitbind.dev/gitbridge/api/v1alpha1"
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
	stop      *Stop
	unchecked bool
	// suspended is why the repository is not even followed, nil if it is.
	suspended *Stop
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

// SuspendedBy is why a ClusterBinding has its repository not followed, nil if it has.
func SuspendedBy(b *v1alpha1.ClusterBinding) *Stop {
	switch {
	case b.Spec.Suspended:
		return &Stop{"Suspended", "spec.suspended is set: nothing is applied, deleted or answered. What is pushed meanwhile is acted on afterwards"}
	case b.IsCopied():
		return &Stop{v1alpha1.ConditionCopied, "two live copies of the app cluster are known, see the condition Copied: nothing is applied, deleted or answered until its owner has decided which goes on. What is pushed meanwhile is acted on afterwards"}
	}
	return nil
}

// Suspend stops everything, or lets it go on where there is no reason why.
func (s *Stops) Suspend(why *Stop) {
	s.mu.Lock()
	resumes := s.suspended != nil && why == nil
	s.suspended = why
	if resumes {
		close(s.resumed)
		s.resumed = make(chan struct{})
	}
	s.mu.Unlock()
	if resumes {
		s.resume()
	}
}

func (s *Stops) isSuspended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended != nil
}

// untilResumed waits while the session is suspended.
func (s *Stops) untilResumed(ctx context.Context) error {
	for {
		s.mu.Lock()
		suspended, resumed := s.suspended, s.resumed
		s.mu.Unlock()
		if suspended == nil {
			return nil
		}
		select {
		case <-resumed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Why says why nothing at all is done; nil where work goes on.
func (s *Stops) Why() *Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended != nil {
		return s.suspended
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
