package hostile

import (
	"regexp"
	"sync"
)

// log counts attacks by their outcome.
type log struct {
	mu     sync.Mutex
	counts map[string]map[string]int
}

// varying is what differs between answers that say the same.
var varying = regexp.MustCompile(`\b[0-9a-z]*[0-9][0-9a-z]{5,}\b|[0-9]+`)

func (l *log) note(attack, outcome string) {
	outcome = varying.ReplaceAllString(outcome, "…")
	if len(outcome) > 160 {
		outcome = outcome[:160] + "…"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[attack] == nil {
		l.counts[attack] = map[string]int{}
	}
	l.counts[attack][outcome]++
}
