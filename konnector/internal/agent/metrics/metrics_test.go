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

// An increase is not seen of what a process finds when it starts.
func TestRemovalsThatAreHeldAreSeenFromTheStartUntilTheyGo(t *testing.T) {
	t.Parallel()
	k, err := NewKonnector(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	of := k.Of("k3x9d2abqw", "postgresqlinstances.anynines.com")
	of.Is("team-a/orders", "Held", "ManyRemovals")
	of.Is("team-a/cache", "Held", "ManyRemovals")
	if got := testutil.ToFloat64(k.held); got != 2 {
		t.Errorf("of two removals that are held, %v are seen", got)
	}
	of.Is("team-a/orders", "", "")
	of.Is("team-a/cache", "InSync", "")
	if got := testutil.ToFloat64(k.held); got != 0 {
		t.Errorf("when none is held any more, %v are seen", got)
	}
	of.Is("team-a/orders", "Held", "ManyRemovals")
	of.Forget()
	if got := testutil.ToFloat64(k.held); got != 0 {
		t.Errorf("of a binding that is not worked on, %v are seen", got)
	}
}
