// Package events tells agents that a branch has moved: a hub that the Git host
// publishes to, and GET /v1/events. It keeps no history and promises no
// delivery of every move: a subscriber always learns the newest head of each
// branch, and a slow subscriber holds up no push.
package events

import (
	"sync"

	"gitbind.dev/gitbridge/api/restapi"
)

// maxSubscribers bounds the open streams of one cluster: two agents, their
// successors, and some people, who leave agentSubscribers to the agents.
const maxSubscribers, agentSubscribers = 64, 16

// Hub passes moves on to those who listen.
type Hub struct {
	mu     sync.Mutex
	closed bool
	subs   map[string]map[*subscription]struct{}
}

// NewHub is a hub without subscribers.
func NewHub() *Hub { return &Hub{subs: map[string]map[*subscription]struct{}{}} }

// Publish tells the subscribers of a cluster about a branch. It does not block.
// Calls for one branch must come in the order of its moves.
func (h *Hub) Publish(cluster string, e restapi.RefEvent) { h.add(cluster, event{RefEvent: e}) }

// PublishHint tells the subscribers of a cluster about a branch as somebody says it is. They
// are told again when it is published that it is there.
func (h *Hub) PublishHint(cluster string, e restapi.RefEvent) {
	h.add(cluster, event{RefEvent: e, hint: true})
}

func (h *Hub) add(cluster string, e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs[cluster] {
		s.add(e)
	}
}

// Close ends all subscriptions, present and future: the process ends.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for _, subs := range h.subs {
		for s := range subs {
			close(s.done)
		}
	}
	h.subs = nil
}

// subscribe gives a subscription, or false when there are too many.
func (h *Hub) subscribe(cluster string, agent bool) (*subscription, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	most := maxSubscribers
	if !agent {
		most -= agentSubscribers
	}
	if h.closed || len(h.subs[cluster]) >= most {
		return nil, false
	}
	s := &subscription{newest: map[eventKey]event{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if h.subs[cluster] == nil {
		h.subs[cluster] = map[*subscription]struct{}{}
	}
	h.subs[cluster][s] = struct{}{}
	return s, true
}

func (h *Hub) unsubscribe(cluster string, s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs[cluster], s)
	if len(h.subs[cluster]) == 0 {
		delete(h.subs, cluster)
	}
}

// event is what a subscriber is told.
type event struct {
	restapi.RefEvent
	// hint says that nobody has looked whether it is so.
	hint bool
}

// eventKey is which events stand for each other: the newest of a branch, and its newest hint.
type eventKey struct {
	ref  string
	hint bool
}

// subscription holds what one subscriber has not taken yet: the newest head of
// each branch, and the newest hint, in the order in which the branches moved first.
type subscription struct {
	wake chan struct{}
	done chan struct{}

	mu     sync.Mutex
	order  []eventKey
	newest map[eventKey]event
}

func (s *subscription) add(e event) {
	s.mu.Lock()
	key := eventKey{e.Ref, e.hint}
	if _, waits := s.newest[key]; !waits {
		s.order = append(s.order, key)
	}
	s.newest[key] = e
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already, and will find this one too
	}
}

// take gives what has come since the last call.
func (s *subscription) take() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := make([]event, 0, len(s.order))
	for _, key := range s.order {
		events = append(events, s.newest[key])
	}
	s.order = s.order[:0]
	clear(s.newest)
	return events
}
