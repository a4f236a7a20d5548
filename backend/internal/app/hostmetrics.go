package app

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitbind.dev/backend/internal/githost/client"
	"gitbind.dev/gitbridge/metrics"
)

// hostMetrics are the numbers of what the API of a Git host elsewhere is asked.
type hostMetrics struct {
	requests           *prometheus.CounterVec
	remaining, expires *prometheus.GaugeVec
	spare              *spare
}

func newHostMetrics(r *metrics.Registry) hostMetrics {
	return hostMetrics{
		requests:  r.Counter("gitbind_host_api_requests_total", "Requests to the API of a Git host elsewhere: ok, unchanged, refused, failed, or withheld as the rate limit is used up.", "account", "result"),
		remaining: r.Gauge("gitbind_host_api_requests_remaining", "What the Git host said last is left of an account's rate limit.", "account"),
		expires:   r.Gauge("gitbind_host_token_expiry_timestamp_seconds", "When the Git host ends the token of an account, where it says so.", "account"),
		spare:     &spare{},
	}
}

// Asked implements client.Observer.
func (m hostMetrics) Asked(account string, result client.Result) {
	m.requests.WithLabelValues(account, string(result)).Inc()
}

// Remaining implements client.Observer.
func (m hostMetrics) Remaining(account string, requests float64, until time.Time) {
	m.remaining.WithLabelValues(account).Set(requests)
	m.spare.remaining(account, requests, until)
}

// Expires implements client.Observer.
func (m hostMetrics) Expires(account string, at time.Time) {
	if at.IsZero() {
		m.expires.DeleteLabelValues(account)
		return
	}
	m.expires.WithLabelValues(account).Set(float64(at.Unix()))
}

// spare is what the backend's accounts have left of their rate limits on a Git host elsewhere, as
// that said last.
type spare struct {
	mu   sync.Mutex
	left map[string]left
}

type left struct {
	requests float64
	until    time.Time
}

func (s *spare) remaining(account string, requests float64, until time.Time) {
	// The konnectors' have limits of their own.
	if !strings.HasPrefix(account, "backend") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil {
		s.left = map[string]left{}
	}
	s.left[account] = left{requests, until}
}

// pause is how long there is to be at least between requests that can wait, so that they take no
// more than half of what is left of each limit until that begins again.
func (s *spare) pause(now time.Time) (pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.left {
		rest := l.until.Sub(now)
		pause = max(pause, min(rest, time.Duration(float64(2*rest)/max(l.requests, 1))))
	}
	return pause
}
