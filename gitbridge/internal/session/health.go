package session

import (
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// Condition is what to tell people about a session. It holds nothing that
// changes by itself.
type Condition struct {
	// Status is True, False or Unknown.
	Status          string
	Reason, Message string
}

// toldAfter is how long something does not work before it is told.
const toldAfter = 3 * time.Second

// slot is one thing that works or does not.
type slot int

const (
	fetching slot = iota // main
	opening              // status
	pushing
	listening
	slots
)

func (s slot) String() string { return [slots]string{"main", "status", "pushes", "events"}[s] }

// health gathers what works and what does not.
type health struct {
	changed func()
	now     func() time.Time
	log     logr.Logger

	mu     sync.Mutex
	worked bool
	held   guard.Verdict
	broken [slots]struct {
		err   error
		since time.Time
		// logged is the error that the log says last, nil for none.
		logged error
	}
}

func (h *health) set(s slot, err error) {
	h.mu.Lock()
	before := h.broken[s]
	switch {
	case err == nil:
		h.broken[s].err = nil
		h.worked = h.worked || s == fetching
	case before.err == nil:
		h.broken[s].err, h.broken[s].since = err, h.now()
	default:
		h.broken[s].err = err
	}
	h.mu.Unlock()
	h.note(s)
	if !isSame(before.err, err) || err == nil && s == fetching {
		h.changed()
	}
	if err != nil && before.err == nil {
		time.AfterFunc(toldAfter, func() { h.note(s); h.changed() })
	}
}

// note logs what does not work, or works again, if the log does not say it yet. What is over
// before it is told is not logged: a backend that restarts cuts the events of all clusters.
func (h *health) note(s slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &h.broken[s]
	if isSame(b.logged, b.err) || b.err != nil && h.now().Sub(b.since) < toldAfter {
		return
	}
	b.logged = b.err
	store.LogTrouble(h.log, s.String(), b.err)
}

// isSame reports whether two errors are one trouble to people.
func isSame(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return explain(a) == explain(b)
}

func (h *health) hold(v guard.Verdict) {
	h.mu.Lock()
	h.held = v
	h.mu.Unlock()
	h.changed()
}

// pushed is told how each push went.
func (s *Session) pushed(err error) {
	switch {
	case errors.Is(err, statusbranch.ErrForeign):
		// An error comes again with the next push.
		_ = s.compareStatus(s.life)
		return
	case errors.Is(err, statusbranch.ErrOutdated):
		// That says nothing of the host.
		return
	}
	s.health.set(pushing, err)
}

// fetched is told how each look at main went. What was not written while none worked is looked at
// when one does.
func (s *Session) fetched(err error) {
	was := s.IsReached()
	s.health.set(fetching, err)
	if err == nil && !was && s.View().Main != nil {
		s.options.Began()
	}
}

// Listening is told how listening to events goes.
func (s *Session) Listening(err error) { s.health.set(listening, err) }

// IsReached reports whether main could be looked at the last time that it was tried.
func (s *Session) IsReached() bool {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	return s.health.broken[fetching].err == nil
}

// Works reports whether the repository can be followed, or need not be.
func (s *Session) Works() bool { return s.Stops.isSuspended() || s.health.condition().Status == "True" }

// IsFollowing reports whether main is followed and applied. Removals that wait for a person do
// not change that.
func (s *Session) IsFollowing() bool {
	return s.health.condition().Status == "True" && s.Stops.Why() == nil
}

// Condition is how it goes, in words.
func (s *Session) Condition() Condition {
	c := s.health.condition()
	// A repository that is not asked for anything is not reached, and need not be.
	if c.Status != "True" && !s.Stops.isSuspended() {
		return c
	}
	if stop := s.Stops.Why(); stop != nil {
		return Condition{"False", stop.Reason, stop.Message}
	}
	if message := wordsOfRemovals(s.Removals.held(), s.View().Main.Head()); message != "" {
		return Condition{"False", "RemovalsHeld", message}
	}
	if _, words := s.unanswerable(); words != "" {
		c.Message += "; " + words
	}
	return c
}

func (h *health) condition() Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, slot := range []slot{fetching, opening, pushing} {
		b := h.broken[slot]
		// Until it worked once, nothing is known that an error contradicts.
		if b.err != nil && (!h.worked || h.now().Sub(b.since) >= toldAfter) {
			return explain(b.err)
		}
	}
	switch {
	case !h.worked:
		return Condition{"Unknown", "Connecting", "the repository was not reached yet"}
	case h.held.IsHeld():
		return Condition{"False", string(h.held.Reason), h.held.Message}
	case h.broken[listening].err != nil && h.now().Sub(h.broken[listening].since) >= toldAfter:
		return Condition{"True", "Polling", "the repository is followed, but the backend sends no events: changes are noticed after up to a minute"}
	}
	return Condition{"True", "Following", "the repository is followed"}
}
