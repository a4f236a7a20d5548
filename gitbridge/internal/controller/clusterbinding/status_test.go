package clusterbinding

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/test/fakeapi"
)

var at = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func checkpoint(accepted string, sequence int64) session.Checkpoint {
	return session.Checkpoint{Begun: "b0", Accepted: "", Epoch: accepted, Sequence: sequence, Removals: []breaker.Removal{{Path: "p", At: at}}}
}

// plane is an API server with one ClusterBinding. Before is called before each
// write of status.
func plane(t *testing.T, before func() error) (client.Client, *v1alpha1.ClusterBinding) {
	b := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "k3x9d2abqw", UID: "u1"}}
	b.Status.Bridge = &v1alpha1.BridgeStatus{Shard: v1alpha1.DefaultShard}
	c := fakeapi.New(fakeapi.Builder().WithObjects(b).WithStatusSubresource(b), interceptor.Funcs{
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			if before != nil {
				if err := before(); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
		t.Fatal(err)
	}
	return c, b
}

func TestACheckpointIsReadAsItWasWritten(t *testing.T) {
	c, b := plane(t, nil)
	s := newStatus(c, c, b, v1alpha1.DefaultShard)
	want := checkpoint("e1", 7)
	if err := s.save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := s.say(t.Context(), b, session.Condition{Status: "True", Reason: "Following", Message: "x"}, nil, false); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.ClusterBinding
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &got); err != nil {
		t.Fatal(err)
	}
	saved := checkpointOf(got.Status.Bridge)
	for i := range saved.Removals {
		saved.Removals[i].At = saved.Removals[i].At.UTC()
	}
	if diff := cmp.Diff(want, saved); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
	if len(got.Status.Conditions) != 1 {
		t.Errorf("conditions %+v", got.Status.Conditions)
	}
}

// A bridge that was stopped while another one worked does not set back what that
// one saved.
func TestAnOlderBridgeDoesNotSetBackWhatANewerOneSaved(t *testing.T) {
	c, b := plane(t, nil)
	old := newStatus(c, c, b, v1alpha1.DefaultShard)
	if err := old.save(t.Context(), checkpoint("e1", 1)); err != nil {
		t.Fatal(err)
	}
	var now v1alpha1.ClusterBinding
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &now); err != nil {
		t.Fatal(err)
	}
	newer := newStatus(c, c, &now, v1alpha1.DefaultShard)
	if err := newer.save(t.Context(), checkpoint("e1", 9)); err != nil {
		t.Fatal(err)
	}
	for _, write := range []func() error{
		func() error { return old.save(t.Context(), checkpoint("e1", 2)) },
		func() error {
			return old.say(t.Context(), b, session.Condition{Status: "False", Reason: "RepositoryUnreachable"}, nil, false)
		},
	} {
		if err := write(); !errors.Is(err, errSuperseded) || !old.isSuperseded() {
			t.Errorf("got %v", err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &now); err != nil {
		t.Fatal(err)
	}
	if now.Status.Bridge.Sequence != 9 || len(now.Status.Conditions) != 0 {
		t.Errorf("status %+v", now.Status)
	}
	if err := newer.save(t.Context(), checkpoint("e1", 10)); err != nil || newer.isSuperseded() {
		t.Errorf("the newer one: %v", err)
	}
}

// The same between its last look and its write.
func TestAWriteIsMadeOnWhatWasRead(t *testing.T) {
	var c client.Client
	var newer *status
	c, b := plane(t, func() error {
		if newer == nil {
			return nil
		}
		other := newer
		newer = nil
		return other.save(t.Context(), checkpoint("e1", 9))
	})
	old := newStatus(c, c, b, v1alpha1.DefaultShard)
	newer = newStatus(c, c, b, v1alpha1.DefaultShard)
	if err := old.save(t.Context(), checkpoint("e1", 1)); !errors.Is(err, errSuperseded) {
		t.Errorf("got %v", err)
	}
	var now v1alpha1.ClusterBinding
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &now); err != nil {
		t.Fatal(err)
	}
	if now.Status.Bridge.Sequence != 9 {
		t.Errorf("status %+v", now.Status.Bridge)
	}
}

func TestAWriteWhoseAnswerNeverCameIsOnesOwn(t *testing.T) {
	lost := false
	var c client.Client
	c, b := plane(t, nil)
	writer := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			err := c.SubResource(sub).Apply(ctx, o, opts...)
			if lost && err == nil {
				err = errors.New("connection reset")
			}
			return err
		},
	})
	s := newStatus(writer, c, b, v1alpha1.DefaultShard)
	lost = true
	if err := s.save(t.Context(), checkpoint("e1", 1)); err == nil {
		t.Fatal("no error")
	}
	lost = false
	if err := s.save(t.Context(), checkpoint("e1", 2)); err != nil || s.isSuperseded() {
		t.Errorf("got %v", err)
	}
}

func TestAWriteIsTriedAgainWhenOthersWroteOtherFields(t *testing.T) {
	var conflicts int
	c, b := plane(t, func() error {
		if conflicts++; conflicts <= 2 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "clusterbindings"}, "x", errors.New("changed"))
		}
		return nil
	})
	if err := newStatus(c, c, b, v1alpha1.DefaultShard).save(t.Context(), checkpoint("e1", 1)); err != nil || conflicts != 3 {
		t.Errorf("%v after %d tries", err, conflicts)
	}
}

func TestForeignObjectsAreCountedAndNamed(t *testing.T) {
	c, b := plane(t, nil)
	s := newStatus(c, c, b, v1alpha1.DefaultShard)
	synced := session.Condition{Status: "True", Reason: "Following", Message: "x"}
	path := func(name string) string {
		return contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: name}.Path()
	}
	want := func(foreign int32, words string) {
		t.Helper()
		var got v1alpha1.ClusterBinding
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &got); err != nil {
			t.Fatal(err)
		}
		condition := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionForeignObjects)
		message := ""
		if condition != nil {
			message = condition.Message
		}
		if got.Status.Foreign != foreign || (condition != nil) != (foreign > 0) || !strings.Contains(message, words) {
			t.Errorf("foreign %d, condition %+v, want %d and %q", got.Status.Foreign, condition, foreign, words)
		}
	}
	for _, say := range []struct {
		foreign []string
		known   bool
		count   int32
		words   string
	}{
		{nil, false, 0, ""},
		{[]string{path("a")}, true, 1, "in their place: team-a/a (postgresqlinstances.anynines.com)."},
		// A process that has not looked at all of main yet takes nothing back.
		{nil, false, 1, "team-a/a"},
		{[]string{path("a"), path("b"), path("c"), path("d")}, true, 4, "and 1 more"},
		{nil, true, 0, ""},
	} {
		if err := s.say(t.Context(), b, synced, say.foreign, say.known); err != nil {
			t.Fatal(err)
		}
		want(say.count, say.words)
	}
}

// The bridge's keys are on the ClusterBinding whatever else is said, also when they are
// others than before.
func TestTheBridgesKeysArePublished(t *testing.T) {
	for _, condition := range []string{"True", "False", "Unknown"} {
		c, b := plane(t, nil)
		for _, key := range []string{"first", "second"} {
			s := newStatus(c, c, b, v1alpha1.DefaultShard)
			for _, publish := range []string{"", key} {
				if publish != "" {
					s.publish(v1alpha1.EncryptionKeys{Recipients: []string{"age1" + publish}, SigningKeys: []string{publish}})
				}
				if err := s.say(t.Context(), b, session.Condition{Status: condition, Reason: "Following", Message: "x"}, nil, false); err != nil {
					t.Fatal(err)
				}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
					t.Fatal(err)
				}
			}
			if got := keysOf(b); !slices.Equal(got.SigningKeys, []string{key}) || !slices.Equal(got.Recipients, []string{"age1" + key}) {
				t.Errorf("Synced is %s: published are %v, want those of %q", condition, got, key)
			}
		}
	}
}
