package clusterbinding

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/metrics"
	"gitbind.dev/gitbridge/internal/session"
)

// held are the Leases that somebody holds.
type held map[string]bool

func (h held) Held(_ context.Context, _, name string) (bool, error) { return h[name], nil }

func (h held) Runs(_ context.Context, _, name string) (bool, error) { return h[name], nil }

func (h held) Free(_ context.Context, _ client.Writer, _, name string) (bool, error) {
	return !h[name], nil
}

// labelled is a plane whose ClusterBinding is to be a shard's, and is followed as its
// status says.
func labelled(t *testing.T, shard string, bridge *v1alpha1.BridgeStatus) (client.Client, *v1alpha1.ClusterBinding) {
	t.Helper()
	c, b := plane(t, nil)
	b.Labels = map[string]string{v1alpha1.LabelShard: shard}
	if err := c.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b.Status.Bridge = bridge
	if err := c.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return c, b
}

func live(t *testing.T, c client.Client, b *v1alpha1.ClusterBinding) *v1alpha1.ClusterBinding {
	t.Helper()
	var out v1alpha1.ClusterBinding
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestAShardTakesOnlyWhatNoOtherMayWrite(t *testing.T) {
	by := func(shard string) *v1alpha1.BridgeStatus {
		return &v1alpha1.BridgeStatus{Shard: shard, Epoch: "e1", Sequence: 7}
	}
	for name, c := range map[string]struct {
		label  string
		bridge *v1alpha1.BridgeStatus
		held   held
		me     string
		takes  bool
	}{
		"a new one":                                 {"b", nil, nil, "b", true},
		"a new one without a label":                 {"", nil, nil, "default", true},
		"another shard's":                           {"b", nil, nil, "default", false},
		"its own, after a restart":                  {"b", by("b"), held{"gitbind-gitbridge-b": true}, "b", true},
		"one that was handed over":                  {"b", by("b"), held{"gitbind-gitbridge-a": true}, "b", true},
		"one that another one follows":              {"b", by("a"), held{"gitbind-gitbridge-a": true}, "b", false},
		"one whose bridge is gone":                  {"b", by("a"), held{"gitbind-gitbridge-b": true}, "b", true},
		"one from before there were shards":         {"", by(""), held{"gitbind-gitbridge": true}, "default", true},
		"one from before, that the default follows": {"b", by(""), held{"gitbind-gitbridge": true}, "b", false},
		"one from before, that nobody follows":      {"b", by(""), nil, "b", true},
		"one that was moved on":                     {"c", by("b"), nil, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			api, b := labelled(t, c.label, c.bridge)
			r := &Reconciler{Client: api, Server: api, Shard: c.me, Leases: c.held}
			// It was asked for by its label of a moment ago.
			before := b.DeepCopy()
			before.Labels = map[string]string{v1alpha1.LabelShard: c.me}
			got, err := r.takeOver(t.Context(), before)
			if c.takes != (err == nil) || err != nil && !errors.Is(err, errNotHandedOver) && !errors.Is(err, errMoved) {
				t.Fatalf("take: %v", err)
			}
			now := live(t, api, b)
			if !c.takes {
				if now.ResourceVersion != b.ResourceVersion {
					t.Error("it was written on what it may not take")
				}
				return
			}
			if now.FollowedBy() != c.me || got.ResourceVersion != now.ResourceVersion {
				t.Errorf("followed by %q, resourceVersion %s of %s", now.FollowedBy(), got.ResourceVersion, now.ResourceVersion)
			}
			if c.bridge != nil && checkpointOf(now.Status.Bridge).Sequence != 7 {
				t.Errorf("what was saved is lost: %+v", now.Status.Bridge)
			}
		})
	}
}

func TestAClusterIsKeptUntilItsNewShardRuns(t *testing.T) {
	for name, c := range map[string]struct {
		bridge *v1alpha1.BridgeStatus
		held   held
		want   bool
	}{
		"nobody runs it":         {&v1alpha1.BridgeStatus{Shard: "a"}, held{"gitbind-gitbridge-a": true}, true},
		"a bridge runs it":       {&v1alpha1.BridgeStatus{Shard: "a"}, held{"gitbind-gitbridge-b": true}, false},
		"it has it already":      {&v1alpha1.BridgeStatus{Shard: "b"}, nil, false},
		"it was never followed":  {nil, nil, false},
		"another one follows it": {&v1alpha1.BridgeStatus{Shard: "c"}, nil, false},
	} {
		api, b := labelled(t, "b", c.bridge)
		r := &Reconciler{Client: api, Server: api, Shard: "a", Leases: c.held}
		got, err := r.stillFollows(t.Context(), b)
		if err != nil || got != c.want {
			t.Errorf("%s: kept %t, %v", name, got, err)
		}
		// One that is kept is taken again after a restart, and written by nobody for that.
		if !c.want {
			continue
		}
		if _, err := r.takeOver(t.Context(), b); err != nil || live(t, api, b).FollowedBy() != "a" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// silent is an API server that is not to be asked.
type silent struct{ client.Reader }

func (silent) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("it is asked")
}

func TestWhoWaitsToTakeAClusterReadsNoMoreThanTheLease(t *testing.T) {
	api, b := labelled(t, "b", &v1alpha1.BridgeStatus{Shard: "a"})
	r := &Reconciler{Client: api, Server: silent{}, Shard: "b", Leases: held{"gitbind-gitbridge-a": true}}
	if _, err := r.takeOver(t.Context(), b); !errors.Is(err, errNotHandedOver) {
		t.Errorf("take: %v", err)
	}
}

// The cache does not know yet that another shard has begun: its Lease counts all the same.
func TestAShardWaitsForTheOneThatItsCacheDoesNotKnowYet(t *testing.T) {
	api, b := labelled(t, "b", &v1alpha1.BridgeStatus{Shard: "a"})
	before := b.DeepCopy()
	before.Status.Bridge = nil
	r := &Reconciler{Client: api, Server: api, Shard: "b", Leases: held{"gitbind-gitbridge-a": true}}
	if _, err := r.takeOver(t.Context(), before); !errors.Is(err, errNotHandedOver) {
		t.Errorf("take: %v", err)
	}
	if by := live(t, api, b).FollowedBy(); by != "a" {
		t.Errorf("followed by %q", by)
	}
}

// Somebody moves the cluster on between the look and the write.
func TestAShardTakesNothingThatChangedMeanwhile(t *testing.T) {
	api, b := labelled(t, "b", &v1alpha1.BridgeStatus{Shard: "a"})
	moving := leases(func() (bool, error) {
		moved := live(t, api, b)
		moved.Labels[v1alpha1.LabelShard] = "a"
		return true, api.Update(t.Context(), moved)
	})
	r := &Reconciler{Client: api, Server: api, Shard: "b", Leases: moving}
	if _, err := r.takeOver(t.Context(), b); err == nil || live(t, api, b).FollowedBy() != "a" {
		t.Errorf("it was taken: %v", err)
	}
}

type leases func() (bool, error)

func (l leases) Held(context.Context, string, string) (bool, error) { return false, nil }

func (l leases) Runs(context.Context, string, string) (bool, error) { return false, nil }

func (l leases) Free(context.Context, client.Writer, string, string) (bool, error) { return l() }

func TestAShardHandsOverWhenItHasStopped(t *testing.T) {
	api, b := labelled(t, "b", &v1alpha1.BridgeStatus{Shard: "a", Epoch: "e1", Sequence: 7})
	registry := prometheus.NewPedanticRegistry()
	numbers, err := metrics.NewBridge(registry)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: api, Server: api, Shard: "a", Metrics: numbers, followers: map[string]*follower{}}
	stopped := false
	r.followers[b.Name] = &follower{stop: func() {
		if live(t, api, b).FollowedBy() != "a" {
			t.Error("it was handed over while it was followed")
		}
		numbers.Of(b.Name).Applied(time.Second)
		stopped = true
	}}
	old := newStatus(api, api, b, "a")
	if err := r.handOver(t.Context(), b); err != nil || !stopped {
		t.Fatalf("stopped: %v, %v", stopped, err)
	}
	if n := testutil.CollectAndCount(registry); n != 0 {
		t.Errorf("the shard before has %d numbers of it", n)
	}
	now := live(t, api, b)
	if now.FollowedBy() != "b" || checkpointOf(now.Status.Bridge).Sequence != 7 {
		t.Errorf("%+v", now.Status.Bridge)
	}
	// What the one before had in mind is written no more.
	if err := old.save(t.Context(), session.Checkpoint{Epoch: "e1", Sequence: 8}); !errors.Is(err, errSuperseded) {
		t.Errorf("save: %v", err)
	}
	// And nobody but who follows hands over.
	for _, shard := range []string{"a", "c"} {
		r := &Reconciler{Client: api, Server: api, Shard: shard}
		if err := r.handOver(t.Context(), now); err != nil || live(t, api, b).ResourceVersion != now.ResourceVersion {
			t.Errorf("shard %s: %v", shard, err)
		}
	}
}
