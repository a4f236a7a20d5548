package unattended

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// leases are those that there are, and whether somebody holds them; nil when the API server
// does not answer.
type leases map[string]bool

func (l leases) State(_ context.Context, namespace, name string) (held, exists bool, err error) {
	if l == nil || namespace != v1alpha1.SystemNamespace {
		return false, false, errors.New("no answer")
	}
	held, exists = l[name]
	return held, exists, nil
}

// missing answers as if a Lease that there is not were held, or not.
type missing struct{ leases }

func (m missing) State(ctx context.Context, namespace, name string) (held, exists bool, err error) {
	held, _, err = m.leases.State(ctx, namespace, name)
	return held, false, err
}

// newClient is one of an API server that has clusters.
func newClient(t *testing.T, clusters ...client.Object) client.Client {
	t.Helper()
	return fakeapi.New(fakeapi.Builder().WithObjects(clusters...).WithStatusSubresource(clusters...))
}

// newShards are those of a backend that was just started.
func newShards(t *testing.T, c client.Client) (*Shards, *prometheus.Registry) {
	t.Helper()
	numbers := prometheus.NewRegistry()
	s, err := New(c, nil, numbers)
	if err != nil {
		t.Fatal(err)
	}
	return s, numbers
}

func TestAClusterThatNobodyFollowsSaysSo(t *testing.T) {
	binding := func(name, shard, by string) *v1alpha1.ClusterBinding {
		b := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"}}
		if shard != "" {
			b.Labels = map[string]string{v1alpha1.LabelShard: shard}
		}
		if by != "" {
			b.Status.Bridge = &v1alpha1.BridgeStatus{Shard: by}
		}
		return b
	}
	first, second, moving := binding("first", "", "default"), binding("second", "b", ""), binding("moving", "b", "default")
	c := newClient(t, first, second, moving)
	s, numbers := newShards(t, c)
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return now }
	both := leases{"gitbind-gitbridge": true, "gitbind-gitbridge-b": true}
	one := leases{"gitbind-gitbridge": true}
	for _, step := range []struct {
		name   string
		after  time.Duration
		leases leases
		want   map[string]string
	}{
		{"all run", 0, both, nil},
		{"they go on", renewalTimeout, both, nil},
		{"a Lease is free", time.Second, one, nil},
		{"a standby takes it", standbyTimeout - time.Second, both, nil},
		{"it is free again", time.Second, one, nil},
		{"nobody takes it", standbyTimeout, one, map[string]string{"second": "NoBridge", "moving": "NoBridge"}},
		{"the API server does not answer", time.Second, nil, map[string]string{"second": "NoBridge", "moving": "NoBridge"}},
		{"the backend starts again", time.Second, both, map[string]string{"second": "NoBridge", "moving": "NoBridge"}},
		{"it sees that it is free still", time.Second, one, map[string]string{"second": "NoBridge", "moving": "NoBridge"}},
		{"somebody takes it, and nobody hands over", handOverTimeout, both, map[string]string{"moving": "NotHandedOver"}},
		{"the backend starts again", time.Second, both, map[string]string{"moving": "NotHandedOver"}},
		{"it goes on", renewalTimeout, both, map[string]string{"moving": "NotHandedOver"}},
		{"the backend starts again", -24 * time.Hour, both, map[string]string{"moving": "NotHandedOver"}}, // with a clock that was ahead, and is not now
		{"its clock is right by now", renewalTimeout, both, map[string]string{"moving": "NotHandedOver"}},
	} {
		now = now.Add(step.after)
		if step.name == "the backend starts again" {
			s, numbers = newShards(t, c)
			s.Now = func() time.Time { return now }
		}
		s.Leases = step.leases
		s.look(t.Context())
		for _, name := range []string{"first", "second", "moving"} {
			var b v1alpha1.ClusterBinding
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &b); err != nil {
				t.Fatal(err)
			}
			got := ""
			if condition := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionUnattended); condition != nil {
				got = condition.Reason
				if !strings.Contains(condition.Message, "shard b") {
					t.Errorf("%s: %s", step.name, condition.Message)
				}
			}
			if got != step.want[name] {
				t.Errorf("%s: %s says %q, want %q", step.name, name, got, step.want[name])
			}
		}
		if step.want["second"] == "NoBridge" && step.name == "nobody takes it" && (!s.IsFree("b") || s.IsFree("default")) {
			t.Errorf("%s: new clusters get the other shard: %t, %t", step.name, s.IsFree("b"), s.IsFree("default"))
		}
		if got := running(t, numbers, "b"); step.leases != nil && (got == 1) != step.leases["gitbind-gitbridge-b"] {
			t.Errorf("%s: the metric says %v", step.name, got)
		}
	}
}

// A bridge without --leader-elect has no Lease, and counts as running.
func TestOfTheOnlyShardNothingIsSaidBeforeItsLeaseWasHeld(t *testing.T) {
	b := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "only", UID: "u"}}
	c := newClient(t, b)
	s, numbers := newShards(t, c)
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return now }
	held, free := leases{"gitbind-gitbridge": true}, leases{"gitbind-gitbridge": false}
	for _, step := range []struct {
		name     string
		after    time.Duration
		leases   Leases
		says     bool
		measured bool
	}{
		{"a Lease that is not there counts as held at first", 0, missing{held}, false, false},
		{"it does not any more", standbyTimeout, missing{free}, false, false},
		{"nor later", time.Hour, missing{free}, false, false},
		{"a bridge takes it", time.Second, held, false, true},
		{"and renews it", renewalTimeout, held, false, true},
		{"it is free", time.Second, free, false, true},
		{"nobody takes it", standbyTimeout, free, true, true},
		{"the API server does not answer", time.Second, leases(nil), true, true},
		{"the backend starts again", time.Second, free, true, true},
		{"it sees that nobody takes it", standbyTimeout, free, true, true},
		{"the Lease is deleted", time.Second, missing{held}, true, false},
	} {
		now = now.Add(step.after)
		if step.name == "the backend starts again" {
			s, numbers = newShards(t, c)
			s.Now = func() time.Time { return now }
		}
		s.Leases = step.leases
		s.look(t.Context())
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		families, err := numbers.Gather()
		says := meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionUnattended)
		if measured := len(families) > 0; err != nil || says != step.says || measured != step.measured {
			t.Errorf("%s: the condition is there: %t, want %t; the metric: %t, want %t; %v", step.name, says, step.says, measured, step.measured, err)
		}
	}
}

// The bridge may have been down for long when the backend starts.
func TestTheOnlyShardIsUnattendedWhoseLeaseIsFreeWhenTheBackendStarts(t *testing.T) {
	t.Parallel()
	b := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "only", UID: "u"}}
	c := newClient(t, b)
	s, numbers := newShards(t, c)
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s.Now, s.Leases = func() time.Time { return now }, leases{"gitbind-gitbridge": false}
	s.look(t.Context())
	if got := running(t, numbers, "default"); got != 0 {
		t.Errorf("the metric says %v", got)
	}
	now = now.Add(standbyTimeout)
	s.look(t.Context())
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
		t.Fatal(err)
	}
	if said := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionUnattended); said == nil || said.Reason != "NoBridge" {
		t.Errorf("the condition is %v", said)
	}
}

// running is what the metric says of a shard.
func running(t *testing.T, from prometheus.Gatherer, shard string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == shard {
			return m.GetGauge().GetValue()
		}
	}
	t.Fatalf("it says nothing of shard %s", shard)
	return 0
}
