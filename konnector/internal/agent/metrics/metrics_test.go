package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Prometheus sees no increase in a series that begins with its first event.
func TestTripsOfTheBreakerAreCountedFromZero(t *testing.T) {
	t.Parallel()
	k, err := NewKonnector(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	of := k.Of("k3x9d2abqw", "postgresqlinstances.anynines.com")
	if n := testutil.CollectAndCount(k.holds); n != 1 {
		t.Fatalf("when a binding begins, there are %d series", n)
	}
	if got := testutil.ToFloat64(k.holds); got != 0 {
		t.Errorf("when a binding begins, it is %v", got)
	}
	of.Is("team-a/orders", "Held", "ManyRemovals")
	of.Is("team-a/cache", "Held", "ManyRemovals")
	if got := testutil.ToFloat64(k.holds); got != 2 {
		t.Errorf("after the breaker tripped, it is %v", got)
	}
}
