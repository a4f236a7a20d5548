package appcluster

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lasting is how long a state must last to be worth a line: those that pass by
// themselves in a moment would only frighten.
const lasting = 1500 * time.Millisecond

// announcer tells each state that lasts, once.
type announcer struct {
	tell func(metav1.Condition)

	mu      sync.Mutex
	current *metav1.Condition
	ended   bool
}

// becomes notes a state.
func (a *announcer) becomes(c *metav1.Condition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil && a.current.Reason == c.Reason && a.current.Message == c.Message {
		return
	}
	a.current = c
	time.AfterFunc(lasting, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.current == c && !a.ended {
			a.tell(*c)
		}
	})
}

// last is the state noted last, nil when there was none. Nothing is told after
// it was asked for.
func (a *announcer) last() *metav1.Condition {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.current
}
