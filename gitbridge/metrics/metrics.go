// Package metrics is what the metrics of both agents have in common: the numbers of
// the Git engine, and claims counted by what they are. Each agent has its own beside
// them. Labels take few values: the cluster's id, the binding, a word.
package metrics

import (
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitbind.dev/gitbridge/store"
)

// seconds are the buckets of durations, from what is not felt to what is given
// up.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// Git are the numbers of the Git engine, in both agents.
type Git struct {
	pushes, commits, fetches *prometheus.CounterVec
	pushTime, fetchTime      *prometheus.HistogramVec
}

// Registry registers what a process may have registered already.
type Registry struct {
	prometheus.Registerer
	// Err is what could not be registered.
	Err error
}

// register gives the collector to use: the one that is there, if there is one.
func register[C prometheus.Collector](r *Registry, c C) C {
	var there prometheus.AlreadyRegisteredError
	switch err := r.Register(c); {
	case errors.As(err, &there):
		if old, ok := there.ExistingCollector.(C); ok {
			return old
		}
		r.Err = errors.Join(r.Err, err)
	case err != nil:
		r.Err = errors.Join(r.Err, err)
	}
	return c
}

// Counter registers a counter, or gives the one that is there.
func (r *Registry) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// Gauge registers a gauge, or gives the one that is there.
func (r *Registry) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// Measure registers a gauge that is measured whenever it is read; it is not a number where
// that fails.
func (r *Registry) Measure(name, help string, measure func() (int64, error)) {
	register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		value, err := measure()
		if err != nil {
			return math.NaN()
		}
		return float64(value)
	}))
}

// Histogram registers a histogram of seconds, or gives the one that is there.
func (r *Registry) Histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds}, labels))
}

// NewGit registers the numbers of the Git engine.
func NewGit(r *Registry) Git {
	return Git{
		pushes:    r.Counter("gitbind_git_pushes_total", "Pushes to a cluster's repository: ok, moved (somebody else was first), rejected, unauthorized or failed.", "cluster", "branch", "result"),
		commits:   r.Counter("gitbind_git_commits_total", "Commits that the Git host has taken.", "cluster", "branch"),
		fetches:   r.Counter("gitbind_git_fetches_total", "Fetches from a cluster's repository: ok, moved, unauthorized or failed.", "cluster", "branch", "result"),
		pushTime:  r.Histogram("gitbind_git_push_seconds", "How long the Git host took for a push.", "cluster", "branch"),
		fetchTime: r.Histogram("gitbind_git_fetch_seconds", "How long a fetch took.", "cluster", "branch"),
	}
}

// Observer observes the repository of one cluster.
func (g Git) Observer(cluster string) store.Observer { return observer{g, cluster} }

// Forget deletes the series of a cluster.
func (g Git) Forget(cluster string) {
	ForgetCluster(cluster, g.pushes.MetricVec, g.commits.MetricVec, g.fetches.MetricVec, g.pushTime.MetricVec, g.fetchTime.MetricVec)
}

// ForgetCluster deletes the series of a cluster. What is counted for it afterwards makes new ones.
func ForgetCluster(cluster string, of ...*prometheus.MetricVec) {
	for _, v := range of {
		v.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
	}
}

type observer struct {
	Git
	cluster string
}

func (o observer) Pushed(branch string, commits int, took time.Duration, err error) {
	branch = family(branch)
	o.pushes.WithLabelValues(o.cluster, branch, result(err)).Inc()
	o.pushTime.WithLabelValues(o.cluster, branch).Observe(took.Seconds())
	if err == nil {
		o.commits.WithLabelValues(o.cluster, branch).Add(float64(commits))
	}
}

func (o observer) Fetched(branch string, took time.Duration, err error) {
	branch = family(branch)
	o.fetches.WithLabelValues(o.cluster, branch, result(err)).Inc()
	o.fetchTime.WithLabelValues(o.cluster, branch).Observe(took.Seconds())
}

// family is "conflicts" for all the branches of that folder.
func family(branch string) string {
	folder, _, _ := strings.Cut(branch, "/")
	return folder
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrConflict):
		return "moved"
	case errors.Is(err, store.ErrRejected):
		return "rejected"
	case errors.Is(err, store.ErrUnauthorized):
		return "unauthorized"
	default:
		return "failed"
	}
}

// Claims counts claims by what they are at present. Methods of nil do nothing.
type Claims struct {
	gauge   *prometheus.GaugeVec
	cluster string

	mu    sync.Mutex
	known map[string][2]string
}

// NewClaims counts the claims of a cluster in a gauge with the labels cluster, binding
// and state.
func NewClaims(gauge *prometheus.GaugeVec, cluster string) *Claims {
	return &Claims{gauge: gauge, cluster: cluster, known: map[string][2]string{}}
}

// Set says what a claim is now, "" for no claim any more, and returns what it
// was.
func (c *Claims) Set(key, binding, now string) (was string) {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.known[key]
	if ok {
		c.gauge.WithLabelValues(c.cluster, before[0], before[1]).Dec()
		delete(c.known, key)
	}
	if now != "" {
		c.gauge.WithLabelValues(c.cluster, binding, now).Inc()
		c.known[key] = [2]string{binding, now}
	}
	return before[1]
}

// Forget takes out a binding that is not worked on any more, "" for all.
func (c *Claims) Forget(binding string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, state := range c.known {
		if binding == "" || state[0] == binding {
			delete(c.known, key)
			c.gauge.WithLabelValues(c.cluster, state[0], state[1]).Dec()
		}
	}
}
