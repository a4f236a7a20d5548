package clusterbinding

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	statuses "gitbind.dev/gitbridge/status"
	"gitbind.dev/gitbridge/store"
)

// part is what the bridge says of a ClusterBinding. It is locked, for its checkpoint.
var part = statuses.Part{
	Owner: tenant.StatusOwner, Fields: []string{"bridge", "foreign"}, Locked: true,
	Conditions: []string{v1alpha1.ConditionSynced, v1alpha1.ConditionForeignObjects},
}

// status writes the bridge's fields of one ClusterBinding's status. They are
// always written together: what a server-side apply leaves out is removed.
type status struct {
	client  client.Client
	server  client.Reader
	binding binding
	// shard is the one whose bridge this is.
	shard string
	// keys are the bridge's public keys; empty as long as they are not known.
	keys v1alpha1.EncryptionKeys

	mu sync.Mutex
	// checkpoint is the one that is saved, and pending the one that may be, if the
	// answer never came.
	checkpoint, pending session.Checkpoint
	said                said
	superseded          bool
}

// said is what is told to people.
type said struct {
	conditions []metav1.Condition
	// foreign is how many claims wait for somebody else's objects.
	foreign int
}

func newStatus(c client.Client, server client.Reader, b *v1alpha1.ClusterBinding, shard string) *status {
	s := &status{client: c, server: server, binding: binding{b.Name, b.UID}, shard: shard, checkpoint: checkpointOf(b.Status.Bridge)}
	s.pending = s.checkpoint
	s.said.foreign = int(b.Status.Foreign)
	for _, of := range part.Conditions {
		if condition := meta.FindStatusCondition(b.Status.Conditions, of); condition != nil {
			s.said.conditions = append(s.said.conditions, *condition)
		}
	}
	return s
}

func checkpointOf(b *v1alpha1.BridgeStatus) session.Checkpoint {
	if b == nil {
		return session.Checkpoint{}
	}
	return session.Checkpoint{Accepted: store.Hash(b.AcceptedCommit), Begun: store.Hash(b.BegunAt), Epoch: b.Epoch, Sequence: b.Sequence, Removals: breaker.RemovalsOf(b.Removals)}
}

// isSame compares what identifies a checkpoint.
func isSame(a, b session.Checkpoint) bool {
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

// hasKeys reports whether the bridge's public keys are known.
func (s *status) hasKeys() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys.SigningKeys) > 0
}

// publish has the bridge's public keys written with what is said next.
func (s *status) publish(keys v1alpha1.EncryptionKeys) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// save keeps the session's checkpoint.
func (s *status) save(ctx context.Context, c session.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(ctx, c, s.said); err != nil {
		return fmt.Errorf("save commit %s: %w", c.Accepted.Short(), err)
	}
	s.checkpoint = c
	return nil
}

// say sets the condition Synced, and what is said of foreign objects, if that is
// something else than before.
func (s *status) say(ctx context.Context, b *v1alpha1.ClusterBinding, c session.Condition, foreign []string, known bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := said{conditions: slices.Clone(s.said.conditions), foreign: s.said.foreign}
	changed := len(s.keys.SigningKeys) > 0 && !reflect.DeepEqual(s.keys, keysOf(b))
	// What was known before holds until something else is known.
	if c.Status != string(metav1.ConditionUnknown) || meta.FindStatusCondition(now.conditions, v1alpha1.ConditionSynced) == nil {
		changed = meta.SetStatusCondition(&now.conditions, metav1.Condition{
			Type: v1alpha1.ConditionSynced, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			ObservedGeneration: b.Generation,
		}) || changed
	}
	if known {
		changed = now.setForeign(b, foreign) || changed
	}
	if !changed {
		return nil
	}
	if err := s.write(ctx, s.checkpoint, now); err != nil {
		return fmt.Errorf("set conditions: %w", err)
	}
	s.said = now
	return nil
}

func keysOf(b *v1alpha1.ClusterBinding) v1alpha1.EncryptionKeys {
	if s := b.Status.Bridge; s != nil && s.Encryption != nil {
		return *s.Encryption
	}
	return v1alpha1.EncryptionKeys{}
}

// setForeign says which claims wait for somebody else's objects. Where none does,
// nothing is said.
func (s *said) setForeign(b *v1alpha1.ClusterBinding, paths []string) (changed bool) {
	changed = s.foreign != len(paths)
	s.foreign = len(paths)
	if len(paths) == 0 {
		return meta.RemoveStatusCondition(&s.conditions, v1alpha1.ConditionForeignObjects) || changed
	}
	return meta.SetStatusCondition(&s.conditions, metav1.Condition{
		Type: v1alpha1.ConditionForeignObjects, Status: metav1.ConditionTrue, Reason: "InTheWay", Message: foreignWords(paths),
		ObservedGeneration: b.Generation,
	}) || changed
}

// foreignWords names a few claims.
func foreignWords(paths []string) string {
	const few = 3
	var names []string
	for _, path := range paths[:min(few, len(paths))] {
		name := path
		if key, err := contract.ParsePath(path); err == nil {
			name = key.String()
		}
		names = append(names, name)
	}
	if more := len(paths) - few; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("held, because objects that are not theirs are in their place: %s. The answer to each says how to hand its object over", strings.Join(names, ", "))
}

// write writes all fields, on exactly the state that was written here last: a
// bridge that was stopped and replaced must not set its successor's checkpoint back.
func (s *status) write(ctx context.Context, c session.Checkpoint, say said) error {
	const tries = 5
	var err error
	for range tries {
		var live v1alpha1.ClusterBinding
		if err := s.server.Get(ctx, client.ObjectKey{Name: s.binding.name}, &live); err != nil {
			return err
		}
		written := checkpointOf(live.Status.Bridge)
		switch {
		case live.UID != s.binding.uid:
			return fmt.Errorf("%s is another one by now", s.binding.name)
		case live.FollowedBy() != s.shard, !isSame(written, s.checkpoint) && !isSame(written, s.pending):
			s.superseded = true
			return errSuperseded
		}
		s.pending = c
		err = part.Write(ctx, s.client, &live, s.want(&live, c, say))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// want is what is there with what the bridge says.
func (s *status) want(live *v1alpha1.ClusterBinding, c session.Checkpoint, say said) *v1alpha1.ClusterBinding {
	want := live.DeepCopy()
	want.Status.Foreign = int32(say.foreign)
	want.Status.Bridge = &v1alpha1.BridgeStatus{Shard: s.shard, AcceptedCommit: string(c.Accepted), BegunAt: string(c.Begun), Epoch: c.Epoch, Sequence: c.Sequence}
	for _, r := range c.Removals {
		want.Status.Bridge.Removals = append(want.Status.Bridge.Removals, v1alpha1.Removal{Path: r.Path, Time: metav1.NewTime(r.At.UTC())})
	}
	keys := s.keys
	if len(keys.SigningKeys) == 0 {
		keys = keysOf(live)
	}
	if len(keys.SigningKeys) > 0 {
		want.Status.Bridge.Encryption = &keys
	}
	for _, of := range part.Conditions {
		meta.RemoveStatusCondition(&want.Status.Conditions, of)
	}
	want.Status.Conditions = append(want.Status.Conditions, say.conditions...)
	return want
}
