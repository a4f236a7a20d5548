package clusterbinding

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// status writes the bridge's fields of one ClusterBinding's status. They are
// always written together: what a server-side apply leaves out is removed.
type status struct {
	client  client.Client
	binding binding

	mu        sync.Mutex
	memory    session.Memory
	condition *metav1.Condition
}

func newStatus(c client.Client, b *v1alpha1.ClusterBinding) *status {
	s := &status{client: c, binding: binding{b.Name, b.UID}}
	if b.Status.Bridge != nil {
		s.memory = session.Memory{Accepted: store.Hash(b.Status.Bridge.AcceptedCommit), Epoch: b.Status.Bridge.Epoch}
	}
	if condition := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionSynced); condition != nil {
		s.condition = condition.DeepCopy()
	}
	return s
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

func (s *status) write(ctx context.Context, m session.Memory, condition *metav1.Condition) error {
	fields := map[string]any{}
	if m != (session.Memory{}) {
		fields["bridge"] = map[string]any{"acceptedCommit": string(m.Accepted), "epoch": m.Epoch}
	}
	if condition != nil {
		fields["conditions"] = []any{map[string]any{
			"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason, "message": condition.Message,
			"observedGeneration": condition.ObservedGeneration, "lastTransitionTime": condition.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
		}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterBinding"))
	u.SetName(s.binding.name)
	// Not that of another life, with the same name.
	u.SetUID(s.binding.uid)
	return s.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(tenant.StatusOwner), client.ForceOwnership)
}
