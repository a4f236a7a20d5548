package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"gitbind.dev/gitbridge/version"
)

// probeTimeout bounds each check.
const probeTimeout = 2 * time.Second

// check is one thing that health tells of. Readiness hangs on the critical ones
// only: agents need the Git host even while nobody can sign in, and all may go on
// with what a proxy would take away with what fails.
type check struct {
	name     string
	probe    func(context.Context) error
	critical bool
}

// health serves /healthz (the process runs, and which version), /readyz (it serves, with all
// checks in words) and /readyz/<check> (one check). Of /readyz it logs what changes.
type health struct {
	checks []check
	log    *slog.Logger

	mu sync.Mutex
	// failing are the names of the checks that failed last.
	failing map[string]bool
}

func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch name, one := strings.CutPrefix(path, "/readyz/"); {
	case path == "/healthz":
		fmt.Fprintln(w, "ok", version.String())
	case path == "/readyz":
		h.ready(r.Context(), w)
	case one:
		h.one(r.Context(), w, name)
	default:
		http.NotFound(w, r)
	}
}

func (h *health) ready(ctx context.Context, w http.ResponseWriter) {
	status := http.StatusOK
	var words strings.Builder
	errs := make([]error, len(h.checks))
	var running sync.WaitGroup
	for i, c := range h.checks {
		running.Go(func() { errs[i] = c.run(ctx) })
	}
	running.Wait()
	if ctx.Err() == nil { // otherwise the checks were not waited for
		h.tell(errs)
	}
	for i, c := range h.checks {
		err := errs[i]
		switch {
		case err == nil:
			fmt.Fprintf(&words, "[+] %s: ok\n", c.name)
		case c.critical:
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&words, "[-] %s: %v\n", c.name, err)
		default:
			fmt.Fprintf(&words, "[-] %s: %v (the rest goes on)\n", c.name, err)
		}
	}
	w.WriteHeader(status)
	fmt.Fprint(w, words.String())
}

// tell logs which checks fail now and did not before, and the other way round.
func (h *health) tell(errs []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing == nil {
		h.failing = map[string]bool{}
	}
	for i, c := range h.checks {
		switch failed := h.failing[c.name]; {
		case errs[i] != nil && !failed:
			h.log.Warn("Health check fails", "check", c.name, "error", errs[i])
		case errs[i] == nil && failed:
			h.log.Info("Health check succeeds again", "check", c.name)
		}
		h.failing[c.name] = errs[i] != nil
	}
}

func (h *health) one(ctx context.Context, w http.ResponseWriter, name string) {
	for _, c := range h.checks {
		if c.name != name {
			continue
		}
		if err := c.run(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		return
	}
	http.Error(w, "no such check", http.StatusNotFound)
}

// remembered has a success of a probe count for a while.
func remembered(probe func(context.Context) error, d time.Duration) func(context.Context) error {
	var mu sync.Mutex
	var good time.Time
	return func(ctx context.Context) error {
		mu.Lock()
		last := good
		mu.Unlock()
		if time.Since(last) < d {
			return nil
		}
		now := time.Now()
		err := probe(ctx)
		if err == nil {
			mu.Lock()
			good = now
			mu.Unlock()
		}
		return err
	}
}

func (c check) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return c.probe(ctx)
}
