package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gitbind.dev/gitbridge/store"
)

// Clusters come and go for as long as a bridge runs.
func TestAClusterThatIsGoneLeavesNoSeries(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	b, err := NewBridge(registry)
	if err != nil {
		t.Fatal(err)
	}
	observe := func(cluster string) {
		b.Follows(cluster, true)
		repository, of := b.Repository(cluster), b.Of(cluster)
		repository.Fetched("main", time.Second, nil)
		repository.Pushed("status", 1, time.Second, nil)
		repository.Pushed("conflicts/a", 1, time.Second, store.ErrConflict)
		of.Answered("bindings/a.example.com/claims/b/c.yaml", "a.example.com", "Held", "Lost")
		of.Applied(time.Second)
		of.StatusPushed(time.Second)
		of.Corrected("a.example.com")
		of.Forget()
	}
	observe("here")
	want := testutil.CollectAndCount(registry)
	observe("gone")
	if both := testutil.CollectAndCount(registry); want < 10 || both != 2*want {
		t.Fatalf("one cluster has %d series, two have %d", want, both)
	}
	b.Forget("gone")
	if got := testutil.CollectAndCount(registry); got != want {
		t.Errorf("there are %d series, want %d", got, want)
	}
	b.Forget("here")
	if got := testutil.CollectAndCount(registry); got != 0 {
		t.Errorf("there are %d series of clusters that are gone", got)
	}
	(*Bridge)(nil).Forget("here")
}

// An increase is not seen of what a process finds when it starts.
func TestRemovalsThatAreHeldAreSeenFromTheStartUntilTheyGo(t *testing.T) {
	t.Parallel()
	b, err := NewBridge(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	const binding = "a.example.com"
	held := func() float64 {
		return testutil.ToFloat64(b.held.WithLabelValues("k3x9d2abqw", binding, "ManyRemovals"))
	}
	of := b.Of("k3x9d2abqw")
	of.Answered("first", binding, "Held", "ManyRemovals")
	of.Answered("second", binding, "Held", "ManyRemovals")
	of.Answered("second", binding, "Held", "ManyRemovals")
	of.Answered("third", binding, "Held", "Moved")
	if got := held(); got != 2 {
		t.Errorf("of two removals that are held, %v are seen", got)
	}
	of.Answered("first", binding, "", "")
	of.Answered("second", binding, "Applied", "")
	if got := held(); got != 0 {
		t.Errorf("when none is held any more, %v are seen", got)
	}
	of.Answered("first", binding, "Held", "ManyRemovals")
	of.Forget()
	if got := held(); got != 0 {
		t.Errorf("of a cluster that is not followed, %v are seen", got)
	}
}
