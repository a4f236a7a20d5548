package claim

import (
	"sync"

	"gitbind.dev/gitbridge/contract"
)

// unanswered are the last pushes to main of which it is not known whether they came there, by
// claim: the Git host's answer was lost. What is known of main may be older than they are. Losing
// it does no harm: a process fetches main as it begins.
type unanswered struct {
	mu     sync.Mutex
	pushes map[contract.Key]contract.ObjectTrailer
}

func (p *unanswered) note(t contract.ObjectTrailer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pushes == nil {
		p.pushes = map[contract.Key]contract.ObjectTrailer{}
	}
	p.pushes[t.Key] = t
}

// of is the push of a claim, and whether there is one.
func (p *unanswered) of(key contract.Key) (contract.ObjectTrailer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.pushes[key]
	return t, ok
}

func (p *unanswered) end(key contract.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pushes, key)
}
