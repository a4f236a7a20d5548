package repository

import (
	"sync/atomic"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// statusBranch is the branch status as far as it can be trusted.
type statusBranch struct {
	branch      store.Branch
	lineage     *Lineage
	checkpoints *Checkpoints
	// read is what the newest snapshot says.
	read atomic.Pointer[observed]
}

type observed struct {
	head store.Hash
	// main is the commit of main that the control plane has seen, "" for none.
	main store.Hash
	guard.Observed
}

// view is the newest snapshot, and what judge says of it.
func (b *statusBranch) view() (s *store.Snapshot, replaced string) {
	for {
		s = b.branch.Snapshot()
		if replaced = b.judge(s); replaced == "" || s.Head() == b.branch.Snapshot().Head() {
			return s, replaced
		}
		// Somebody else has seen a newer one before this one was judged.
	}
}

// judge says in words that a snapshot of status does not continue what was seen of that
// branch; "" when it does.
func (b *statusBranch) judge(s *store.Snapshot) string {
	now := b.observed(s).Observed
	known, v := b.checkpoints.observe(now)
	return wordsOfStatus(v, known, now, b.lineage.Accepted())
}

func (b *statusBranch) observed(s *store.Snapshot) *observed {
	if last := b.read.Load(); last != nil && last.head == s.Head() {
		return last
	}
	now := &observed{head: s.Head()}
	if data, err := s.Read(contract.ObservedPath); err == nil {
		if o, err := contract.DecodeObserved(data); err == nil {
			now.main, now.Observed = store.Hash(o.Commit), guard.Observed{Epoch: o.Epoch, Sequence: o.Sequence}
		}
	}
	b.read.Store(now)
	return now
}
