package clusterbinding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// status writes the bridge's fields of one ClusterBinding's status. They are
// always written together: what a server-side apply leaves out is removed.
type status struct {
	client  client.Client
	server  client.Reader
	binding binding

	mu sync.Mutex
	// memory is what is written, and pending what may be, if the answer never
	// came.
	memory, pending session.Memory
	condition       *metav1.Condition
	superseded      bool
}

func newStatus(c client.Client, server client.Reader, b *v1alpha1.ClusterBinding) *status {
	s := &status{client: c, server: server, binding: binding{b.Name, b.UID}, memory: memoryOf(b.Status.Bridge)}
	s.pending = s.memory
	if condition := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionSynced); condition != nil {
		s.condition = condition.DeepCopy()
	}
	return s
}

func memoryOf(b *v1alpha1.BridgeStatus) session.Memory {
	if b == nil {
		return session.Memory{}
	}
	m := session.Memory{Accepted: store.Hash(b.AcceptedCommit), Epoch: b.Epoch, Sequence: b.Sequence}
	for _, r := range b.Removals {
		m.Removals = append(m.Removals, breaker.Removal{Path: r.Path, At: r.Time.Time})
	}
	return m
}

// isSame compares what identifies a memory.
func isSame(a, b session.Memory) bool {
	return a.Accepted == b.Accepted && a.Epoch == b.Epoch && a.Sequence == b.Sequence
}

// errSuperseded says that another bridge wrote: what is in mind here is old.
var errSuperseded = errors.New("another bridge wrote the status of the ClusterBinding")

// isSuperseded reports whether what is in mind is old.
func (s *status) isSuperseded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.superseded
}

// remember writes the session's memory down.
func (s *status) remember(ctx context.Context, m session.Memory) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(ctx, m, s.condition); err != nil {
		return fmt.Errorf("remember commit %s: %w", m.Accepted.Short(), err)
	}
	s.memory = m
	return nil
}

// say sets the condition, if it says something else than before.
func (s *status) say(ctx context.Context, b *v1alpha1.ClusterBinding, c session.Condition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.condition != nil && c.Status == string(metav1.ConditionUnknown) {
		// What was known before holds until something else is known.
		return nil
	}
	conditions := []metav1.Condition{}
	if s.condition != nil {
		conditions = append(conditions, *s.condition)
	}
	changed := meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1alpha1.ConditionSynced, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		ObservedGeneration: b.Generation,
	})
	if !changed {
		return nil
	}
	if err := s.write(ctx, s.memory, &conditions[0]); err != nil {
		return fmt.Errorf("set condition %s: %w", v1alpha1.ConditionSynced, err)
	}
	s.condition = &conditions[0]
	return nil
}

// write writes all fields, on exactly the state that was written here last: a
// bridge that was stopped and replaced must not set its successor's memory back.
func (s *status) write(ctx context.Context, m session.Memory, condition *metav1.Condition) error {
	const tries = 5
	var err error
	for range tries {
		var live v1alpha1.ClusterBinding
		if err := s.server.Get(ctx, client.ObjectKey{Name: s.binding.name}, &live); err != nil {
			return err
		}
		written := memoryOf(live.Status.Bridge)
		switch {
		case live.UID != s.binding.uid:
			return fmt.Errorf("%s is another one by now", s.binding.name)
		case !isSame(written, s.memory) && !isSame(written, s.pending):
			s.superseded = true
			return errSuperseded
		}
		s.pending = m
		u := s.fields(m, condition)
		u.SetResourceVersion(live.ResourceVersion)
		err = s.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(tenant.StatusOwner), client.ForceOwnership)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

func (s *status) fields(m session.Memory, condition *metav1.Condition) *unstructured.Unstructured {
	fields := map[string]any{}
	if !isSame(m, session.Memory{}) {
		bridge := map[string]any{"acceptedCommit": string(m.Accepted), "epoch": m.Epoch, "sequence": m.Sequence}
		var removals []any
		for _, r := range m.Removals {
			removals = append(removals, map[string]any{"path": r.Path, "time": r.At.UTC().Format(time.RFC3339)})
		}
		if len(removals) > 0 {
			bridge["removals"] = removals
		}
		fields["bridge"] = bridge
	}
	if condition != nil {
		fields["conditions"] = []any{map[string]any{
			"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason, "message": condition.Message,
			"observedGeneration": condition.ObservedGeneration, "lastTransitionTime": condition.LastTransitionTime.UTC().Format(time.RFC3339),
		}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterBinding"))
	u.SetName(s.binding.name)
	// Not that of another life, with the same name.
	u.SetUID(s.binding.uid)
	return u
}
