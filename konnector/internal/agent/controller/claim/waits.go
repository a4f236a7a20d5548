package claim

import (
	"sync"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
)

// waits is since when claims wait for something. Losing it does no harm: what is
// waited for is then waited for from the start.
type waits struct {
	mu    sync.Mutex
	since map[contract.Key]wait
}

type wait struct {
	what  string
	since time.Time
}

// rest is how much is left of the time that a claim may wait for something; the
// first call for it begins the time.
func (w *waits) rest(key contract.Key, what string, most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = map[contract.Key]wait{}
	}
	if w.since[key].what != what {
		w.since[key] = wait{what, time.Now()}
	}
	return most - time.Since(w.since[key].since)
}

func (w *waits) end(key contract.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.since, key); len(w.since) == 0 {
		// A map keeps the size that a burst gave it.
		w.since = nil
	}
}

// answerIsDue reports whether all is well and only the control plane has not
// said so yet: main says what the object says, since a moment ago.
func (l *look) answerIsDue() bool {
	return l.object != nil && l.file != nil && !l.facts.Terminating && l.decision.Action == decision.Nothing &&
		l.base != nil && l.base.Blob == string(l.file.Hash) && l.base.UID == l.object.GetUID() &&
		(l.answer == nil || l.answer.Answers.Blob != string(l.file.Hash))
}
