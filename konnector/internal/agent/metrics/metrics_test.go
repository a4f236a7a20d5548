package metrics

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// Prometheus sees no increase in a series that begins with its first event.
func TestTripsOfTheBreakerAreCountedFromZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	k, err := NewKonnector(registry)
	if err != nil {
		t.Fatal(err)
	}
	of := k.Of("k3x9d2abqw", "postgresqlinstances.anynines.com")
	holds := func() (values []float64) {
		t.Helper()
		all, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			for _, m := range f.GetMetric() {
				if f.GetName() == "gitbind_konnector_holds_total" {
					values = append(values, m.GetCounter().GetValue())
				}
			}
		}
		return values
	}
	if diff := cmp.Diff([]float64{0}, holds()); diff != "" {
		t.Errorf("when a binding begins (-want +got):\n%s", diff)
	}
	of.Is("team-a/orders", "Held", "ManyRemovals")
	of.Is("team-a/cache", "Held", "ManyRemovals")
	if diff := cmp.Diff([]float64{2}, holds()); diff != "" {
		t.Errorf("after the breaker tripped (-want +got):\n%s", diff)
	}
}
