package app

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gitbind.dev/gitbridge/metrics"
)

// TestWhenATokenEndsIsMeasured has one, and then the next one, which does not end.
func TestWhenATokenEndsIsMeasured(t *testing.T) {
	t.Parallel()
	m := newHostMetrics(&metrics.Registry{Registerer: prometheus.NewRegistry()})
	ends := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	if m.Expires("backend", ends); testutil.ToFloat64(m.expires) != float64(ends.Unix()) {
		t.Errorf("it is %f", testutil.ToFloat64(m.expires))
	}
	if m.Expires("backend", time.Time{}); testutil.CollectAndCount(m.expires) != 0 {
		t.Error("one that does not end is measured")
	}
}
