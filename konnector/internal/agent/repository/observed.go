package repository

import (
	"fmt"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// statusReplaced says in words that a snapshot of status does not continue what
// was seen of that branch; "" when it does. An older one comes from a backup,
// another epoch from another control plane or another repository: what either
// says of a service need not be so.
func (r *Repository) statusReplaced(s *store.Snapshot) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.statusJudged && s.Head() == r.statusHead {
		return r.statusWords
	}
	now, known := observedIn(s), r.memory.Observed
	words := ""
	switch {
	case known.Epoch == "" || now == known:
	case now.Epoch == known.Epoch && now.Sequence > known.Sequence:
	case now.Epoch == "":
		words = "is gone, or has no " + contract.ObservedPath
	case now.Epoch != known.Epoch:
		words = fmt.Sprintf("began anew: its epoch is %s, and was %s", now.Epoch, known.Epoch)
	default:
		words = fmt.Sprintf("went back: it is at sequence %d, and was at %d", now.Sequence, known.Sequence)
	}
	if words == "" {
		r.observe(now)
	}
	r.statusJudged, r.statusHead, r.statusWords = true, s.Head(), words
	return words
}

// observe notes how far status has come. It is worth a write of its own only
// when the branch is a new one: an older sequence in the memory of the next
// process finds fewer backups out, and no service goes for that. The caller
// holds mu.
func (r *Repository) observe(now Observed) {
	if now.Epoch == "" || now == r.memory.Observed {
		return
	}
	if now.Epoch != r.memory.Observed.Epoch {
		r.version++
	}
	r.memory.Observed = now
}

func observedIn(s *store.Snapshot) Observed {
	data, err := s.Read(contract.ObservedPath)
	if err != nil {
		return Observed{}
	}
	o, err := contract.DecodeObserved(data)
	if err != nil {
		return Observed{}
	}
	return Observed{Epoch: o.Epoch, Sequence: o.Sequence}
}

func (r *Repository) statusReplacedWords(words string) string {
	if words == "" {
		return ""
	}
	return fmt.Sprintf("Branch status %s: the repository was restored from a backup or replaced, or the control plane began anew. No object is let go of on its word. It is over when the control plane continues the branch that was; if it is right as it is now: kubectl gitbind approve --main %s.", words, approvable(r.Accepted()))
}
