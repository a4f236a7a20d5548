package clusterbinding

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/internal/metrics"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	statuses "gitbind.dev/gitbridge/status"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// A webhook that the Git host refuses, or a right that the backend lacks, keeps a bridge that begins
// from a cluster no more than one that runs. Where it cannot follow, it says so.
func TestABridgeBeginsWithAClusterThatIsNotReady(t *testing.T) {
	t.Parallel()
	api, b := plane(t, nil)
	b.Status.TenantNamespace, b.Status.Repository = v1alpha1.TenantNamespace(b.Name), &v1alpha1.Repository{URL: "https://git.example.com/k3x9d2abqw.git"}
	statuses.Set(b, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "GitHostRefusesWebhook"}, at)
	statuses.Set(b, metav1.Condition{Type: v1alpha1.ConditionSynced, Status: metav1.ConditionTrue, Reason: "Following"}, at)
	if err := api.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	numbers, err := metrics.NewBridge(registry)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: api, Server: api, Shard: v1alpha1.DefaultShard, Metrics: numbers, based: make(chan struct{}), followers: map[string]*follower{}}
	r.Claims = func(tenant.Cluster) (Claims, error) { return nil, errors.New("no claims here") }
	close(r.based)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)}); err == nil || !strings.HasSuffix(err.Error(), "no claims here") {
		t.Errorf("it says %v", err)
	}
	if c := meta.FindStatusCondition(live(t, api, b).Status.Conditions, v1alpha1.ConditionSynced); c.Status != metav1.ConditionFalse || c.Reason != "NotFollowed" {
		t.Errorf("Synced is %+v", c)
	}
	if got := testutil.ToFloat64(registry); got != 0 {
		t.Errorf("gitbind_bridge_following, which is the only number, is %v", got)
	}
	// Nobody is told of one that is not to be followed.
	b = live(t, api, b)
	b.Spec.Suspended = true
	if err := api.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	_, _ = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
	if n := testutil.CollectAndCount(registry); n != 0 {
		t.Errorf("of one that is suspended there are %d numbers", n)
	}
	numbers.Follows(b.Name, false)
	// What ends is counted until it has ended.
	r.followers[b.Name] = &follower{stop: func() { numbers.Of(b.Name).Applied(time.Second) }}
	if err := api.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)}); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(registry); n != 0 {
		t.Errorf("of one that is gone there are %d numbers", n)
	}
}

// silentMain is a branch whose host does not answer when it is asked for history.
type silentMain struct {
	store.Branch
	asked chan struct{}
}

func (b *silentMain) Log(ctx context.Context, _, _ store.Hash) ([]store.Commit, bool, error) {
	close(b.asked)
	<-ctx.Done()
	return nil, false, ctx.Err()
}

// The workers are those of all app clusters.
func TestL8_ABindingIsLookedAtWhileItsHostIsSilent(t *testing.T) {
	t.Parallel()
	api, b := plane(t, nil)
	b.Status.TenantNamespace, b.Status.Repository = v1alpha1.TenantNamespace(b.Name), &v1alpha1.Repository{URL: "https://git.example.com/k3x9d2abqw.git"}
	if err := api.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	remote := memstore.New()
	main := &silentMain{Branch: remote.Branch("main"), asked: make(chan struct{})}
	f := &follower{cluster: clusterOf(b), url: b.Status.Repository.URL, status: newStatus(api, api, b, v1alpha1.DefaultShard)}
	f.status.publish(v1alpha1.EncryptionKeys{SigningKeys: []string{"a"}})
	f.session = session.New(session.Options{
		Cluster: f.cluster, Main: main, Status: remote.Branch("status"), Limits: breaker.Default(), Now: time.Now,
		Save: func(context.Context, session.Checkpoint) error { return nil }, Enqueue: func(string, bool) {}, Began: func() {}, Changed: func() {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { f.session.Run(ctx, nil, nil) })
	<-main.asked
	r := &Reconciler{Client: api, Server: api, Shard: v1alpha1.DefaultShard, based: make(chan struct{}), followers: map[string]*follower{b.Name: f}}
	close(r.based)
	done := make(chan error, 1)
	running.Go(func() {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		done <- err
	})
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a worker waits for the host")
	}
}
