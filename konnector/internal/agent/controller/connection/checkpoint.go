package connection

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
)

// readCheckpoint takes the checkpoint from a Connection's status.
func readCheckpoint(s v1alpha1.ConnectionStatus) repository.Checkpoint {
	c := repository.Checkpoint{Accepted: store.Hash(s.AcceptedCommit), Begun: store.Hash(s.BegunAt)}
	if o := s.Observed; o != nil {
		c.Observed = guard.Observed{Epoch: o.Epoch, Sequence: o.Sequence}
	}
	c.Removals = breaker.RemovalsOf(s.Removals)
	for _, move := range s.Moves {
		c.Moves = append(c.Moves, repository.Move{From: move.From, To: move.To})
	}
	if a := s.Approved; a != nil {
		c.Approved.Main, c.Approved.Removals = a.Main, a.Removals
		if a.RemovalsTime != nil {
			c.Approved.RemovalsUpTo = a.RemovalsTime.Time
		}
	}
	return c
}

// writeCheckpoint is the inverse of readCheckpoint.
func writeCheckpoint(s *v1alpha1.ConnectionStatus, c repository.Checkpoint) {
	s.AcceptedCommit, s.BegunAt = string(c.Accepted), string(c.Begun)
	s.Observed, s.Removals, s.Moves, s.Approved = nil, nil, nil, nil
	if o := c.Observed; o.Epoch != "" {
		s.Observed = &v1alpha1.ObservedStatus{Epoch: o.Epoch, Sequence: o.Sequence}
	}
	for _, r := range c.Removals {
		s.Removals = append(s.Removals, v1alpha1.Removal{Path: r.Path, Time: inSeconds(r.At)})
	}
	for _, move := range c.Moves {
		s.Moves = append(s.Moves, v1alpha1.Move{From: move.From, To: move.To})
	}
	if a := c.Approved; a != (repository.Approved{}) {
		s.Approved = &v1alpha1.Approvals{Main: a.Main, Removals: a.Removals}
		if !a.RemovalsUpTo.IsZero() {
			s.Approved.RemovalsTime = new(inSeconds(a.RemovalsUpTo))
		}
	}
}

// inSeconds is a time as the API server keeps it.
func inSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
