package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"gitbind.dev/backend/internal/githost/client"
	"gitbind.dev/gitbridge/metrics"
)

// hostMetrics are the numbers of what the API of a Git host elsewhere is asked.
type hostMetrics struct {
	requests  *prometheus.CounterVec
	remaining *prometheus.GaugeVec
}

func newHostMetrics(r *metrics.Registry) hostMetrics {
	return hostMetrics{
		requests:  r.Counter("gitbind_host_api_requests_total", "Requests to the API of a Git host elsewhere: ok, unchanged, refused, failed, or withheld as the rate limit is used up.", "account", "result"),
		remaining: r.Gauge("gitbind_host_api_requests_remaining", "What the Git host said last is left of an account's rate limit.", "account"),
	}
}

// Asked implements client.Observer.
func (m hostMetrics) Asked(account string, result client.Result) {
	m.requests.WithLabelValues(account, string(result)).Inc()
}

// Remaining implements client.Observer.
func (m hostMetrics) Remaining(account string, requests float64) {
	m.remaining.WithLabelValues(account).Set(requests)
}
