package connection

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
)

// recall is what a Connection's status remembers.
func recall(s v1alpha1.ConnectionStatus) repository.Memory {
	m := repository.Memory{Accepted: store.Hash(s.AcceptedCommit), Begun: store.Hash(s.BegunAt)}
	if o := s.Observed; o != nil {
		m.Observed = repository.Observed{Epoch: o.Epoch, Sequence: o.Sequence}
	}
	m.Removals = breaker.RemovalsOf(s.Removals)
	for _, move := range s.Moves {
		m.Moves = append(m.Moves, repository.Move{From: move.From, To: move.To})
	}
	if a := s.Approved; a != nil {
		m.Approved.Main, m.Approved.Removals = a.Main, a.Removals
		if a.RemovalsTime != nil {
			m.Approved.RemovalsUpTo = a.RemovalsTime.Time
		}
	}
	return m
}

// remember is the inverse of recall.
func remember(s *v1alpha1.ConnectionStatus, m repository.Memory) {
	s.AcceptedCommit, s.BegunAt = string(m.Accepted), string(m.Begun)
	s.Observed, s.Removals, s.Moves, s.Approved = nil, nil, nil, nil
	if o := m.Observed; o.Epoch != "" {
		s.Observed = &v1alpha1.ObservedStatus{Epoch: o.Epoch, Sequence: o.Sequence}
	}
	for _, r := range m.Removals {
		s.Removals = append(s.Removals, v1alpha1.Removal{Path: r.Path, Time: inSeconds(r.At)})
	}
	for _, move := range m.Moves {
		s.Moves = append(s.Moves, v1alpha1.Move{From: move.From, To: move.To})
	}
	if a := m.Approved; a != (repository.Approved{}) {
		s.Approved = &v1alpha1.Approvals{Main: a.Main, Removals: a.Removals}
		if !a.RemovalsUpTo.IsZero() {
			s.Approved.RemovalsTime = new(inSeconds(a.RemovalsUpTo))
		}
	}
}

// inSeconds is a time as the API server keeps it.
func inSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
