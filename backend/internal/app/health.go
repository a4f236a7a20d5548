package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"gitbind.dev/gitbridge/version"
)

// probeTimeout bounds each check.
const probeTimeout = 2 * time.Second

// check is one thing that health tells of. Readiness hangs on the critical ones
// only: agents need the Git host even while nobody can sign in, and must not
// lose it because a proxy takes the backend out of service.
type check struct {
	name     string
	probe    func(context.Context) error
	critical bool
}

// health serves /healthz (the process runs, and which version), /readyz (it serves, with all
// checks in words) and /readyz/<check> (one check).
type health struct {
	checks []check
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
