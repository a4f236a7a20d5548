package session

import (
	"errors"
	"strings"
	"sync"
	"time"

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

// patience is how long something may not work before it is told.
const patience = 3 * time.Second

// slot is one thing that works or does not.
type slot int

const (
	fetching slot = iota // main
	opening              // status
	pushing
	listening
	slots
)

// health gathers what works and what does not.
type health struct {
	changed func()
	now     func() time.Time

	mu     sync.Mutex
	worked bool
	held   *Hold
	broken [slots]struct {
		err   error
		since time.Time
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
	switch {
	case err != nil && before.err == nil:
		h.changed()
		time.AfterFunc(patience, h.changed)
	case err == nil && (before.err != nil || s == fetching):
		h.changed()
	}
}

func (h *health) hold(hold *Hold) {
	h.mu.Lock()
	h.held = hold
	h.mu.Unlock()
	h.changed()
}

// pushed is told how each push went.
func (s *Session) pushed(err error) {
	if errors.Is(err, statusbranch.ErrForeign) {
		s.compareStatus()
		return
	}
	s.health.set(pushing, err)
}

// Listening is told how listening to events goes.
func (s *Session) Listening(err error) { s.health.set(listening, err) }

// Works reports whether the repository can be followed.
func (s *Session) Works() bool { return s.health.condition().Status == "True" }

// Condition is how it goes, in words.
func (s *Session) Condition() Condition {
	c := s.health.condition()
	if c.Status != "True" {
		return c
	}
	if stalled := s.Stalled(); stalled != nil {
		return Condition{"False", stalled.Reason, stalled.Message}
	}
	if message := s.heldRemovals(); message != "" {
		return Condition{"False", "RemovalsHeld", message}
	}
	return c
}

func (h *health) condition() Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, slot := range []slot{fetching, opening, pushing} {
		b := h.broken[slot]
		// Until it worked once, nothing is known that an error contradicts.
		if b.err != nil && (!h.worked || h.now().Sub(b.since) >= patience) {
			return trouble(b.err)
		}
	}
	switch {
	case !h.worked:
		return Condition{"Unknown", "Connecting", "the repository was not reached yet"}
	case h.held != nil:
		return Condition{"False", h.held.Reason, h.held.Message}
	case h.broken[listening].err != nil && h.now().Sub(h.broken[listening].since) >= patience:
		return Condition{"True", "Polling", "the repository is followed, but the backend sends no events: changes are noticed after up to a minute"}
	}
	return Condition{"True", "Following", "the repository is followed"}
}

// ErrNoCredential says that the credential for the repository is not there.
var ErrNoCredential = errors.New("there is no credential for the repository")

func trouble(err error) Condition {
	switch {
	case errors.Is(err, ErrNoCredential):
		return Condition{"False", "CredentialMissing", "the Secret gitbind-bridge with username and password is missing in the tenant namespace"}
	case errors.Is(err, store.ErrUnauthorized):
		return Condition{"False", "CredentialRefused", "the Git host refuses the credential in the Secret gitbind-bridge: it is read again at each try"}
	case errors.Is(err, store.ErrRepositoryNotFound):
		return Condition{"False", "RepositoryNotFound", "the Git host does not have the repository"}
	case errors.Is(err, store.ErrObjectFormat):
		return Condition{"False", "RepositoryUnusable", "the repository names its objects by SHA-256, and only SHA-1 is supported: make one with git init --object-format=sha1, and push to that"}
	case errors.Is(err, store.ErrRejected):
		return Condition{"False", "PushRefused", "the Git host refuses what the bridge pushes: " + rejection(err)}
	}
	return Condition{"False", "RepositoryUnreachable", "the Git host does not answer: it is tried again"}
}

// rejection is what the host said, in its words, which come last.
func rejection(err error) string {
	text := err.Error()
	if _, words, ok := strings.Cut(text, store.ErrRejected.Error()+": "); ok {
		return words
	}
	return text
}
