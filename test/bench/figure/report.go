package figure

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Report is all of a run.
type Report struct {
	Figures []Figure
	Traces  []Trace
	// Usages are what the processes used, in the order in which they were
	// noted.
	Usages []Usage

	Began  time.Time
	Took   time.Duration
	Cores  int
	Memory uint64
	System string
	// Load is the machine's average load when the run began: what it does beside.
	Load  float64
	Quick bool
	// Introduction is what a page beside the main one begins with.
	Introduction string
}

// Begin is a report that begins now, on this machine.
func Begin() *Report {
	r := &Report{Began: time.Now(), Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return r
	}
	if m, err := fs.Meminfo(); err == nil && m.MemTotal != nil {
		r.Memory = *m.MemTotal << 10
	}
	if l, err := fs.LoadAvg(); err == nil {
		r.Load = l.Load1
	}
	return r
}

// Usage is what one process used for one thing.
type Usage struct {
	During, Process string
	Size            int
	CPU             time.Duration
	Peak            uint64
}

// Add adds figures.
func (r *Report) Add(f ...Figure) { r.Figures = append(r.Figures, f...) }

// Write writes latest.json, README.md and the plots into a folder; with a name, a page beside
// these, and its figures as JSON.
func (r *Report) Write(dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r.Figures, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	files := map[string][]byte{name + ".json": data, name + ".md": []byte(r.Introduction + r.figures())}
	if name == "" {
		files = map[string][]byte{"latest.json": data, "README.md": []byte(r.page())}
		for name, svg := range r.plots() {
			files[name] = []byte(svg)
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// page is the main one.
func (r *Report) page() string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString(r.figures())
	if len(r.Traces) > 0 {
		b.WriteString(traces)
	}
	for _, t := range r.Traces {
		b.WriteString(t.String())
	}
	b.WriteString(usagesHead)
	for _, u := range r.Usages {
		fmt.Fprintf(&b, "| %s | %s | %s | %.2f s | %.0f MiB |\n", u.During, thousands(u.Size), u.Process, u.CPU.Seconds(), float64(u.Peak)/(1<<20))
	}
	return b.String()
}

// figures are what the run was, and its figures.
func (r *Report) figures() string {
	var b strings.Builder
	fmt.Fprintf(&b, "This run began on %s and took %s, on %d cores and %.0f GiB (%s).",
		r.Began.UTC().Format("2006-01-02 15:04 UTC"), r.Took.Round(time.Second), r.Cores, float64(r.Memory)/(1<<30), r.System)
	if r.Load > float64(r.Cores)/2 {
		fmt.Fprintf(&b, " The machine was busy with other things: its load was %.1f when the run began, "+
			"so take none of the times for granted.", r.Load)
	}
	if r.Quick {
		b.WriteString(" It was a quick one, of few samples.")
	}
	b.WriteString("\n")
	b.WriteString(r.sideBySide())
	if missed := r.Missed(); len(missed) > 0 {
		b.WriteString(missedHead)
		for _, f := range missed {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.Title(), thousands(f.Size), values(f.P50, f.P99, f.Unit), optional(f.Ratio), f.Target)
		}
	}
	b.WriteString(figuresHead)
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "| %s | %s | %s %s | %s | %s | %s | %s | %s |\n", f.Title(), thousands(f.Size), number(f.P50), f.Unit,
			optional(f.P99), optional(f.Floor), optional(f.Ratio), f.Target, met(f.OK))
	}
	return b.String()
}

const missedHead = `
## What misses its target

The reasons, and what was tried, are in the [decision on speed](../decisions/2026-11-26-speed.md).

| figure | size | p50 / p99 | ratio | target |
|---|---:|---:|---:|---|
`

const figuresHead = `
## Figures

| figure | size | p50 | p99 | floor | ratio | target | met |
|---|---:|---:|---:|---:|---:|---|---|
`

const usagesHead = `
![Ratios to the floor](ratios.svg)

![Median times](times.svg)

## Processes

CPU time and the highest resident memory since the process began. All share the cores.

| during | size | process | CPU | peak memory |
|---|---:|---|---:|---:|
`

const traces = `
## Where the time of one change goes

Medians, in milliseconds since the change was sent, as API servers and Git host have logged
their requests. To log takes time: these are longer ways than those above.
`

const introduction = `# What gitbind costs

Written by ` + "`make bench`" + `, with the plots, from [latest.json](latest.json). With 100,000 claims
of one app cluster, and of 200, ` + "`make bench-large`" + ` writes [100000-claims.md](100000-claims.md)
and [200-clusters.md](200-clusters.md), with few claims of 500 [500-clusters.md](500-clusters.md), and of 2,000
in four shards [2000-clusters.md](2000-clusters.md). Quote the ratios: everything runs on one machine (both API servers with
their etcds, the Git host, the agents, the clients that measure), so absolute times say as
much of the machine as of gitbind.

The *floor* is measured in the same run, in turns with what it is compared with:

- for claims, a bare client-go relay: it watches a resource in one API server, creates
  and updates each object in the other, and writes the status back; 16 workers each
  way, no rate limit. The resource has the same schema, the objects are as large, and
  the same "data services" report their status.
- for pushes, packs that git made beforehand, sent by a bare HTTP client to the same
  host.
- for merges, what the relay needs to carry an edit. The time of a merge begins when the
  host's API is asked for it, so it contains the host's own work.
- for a person's push to main, the same edit through the relay. It is timed from the start
  of stock git, and from when git, which has started and asked what the host has, sends it.
- for proposals, the same bare pushes. The time of a proposal is that of stock git, with
  its processes.
- for restarts, a bare informer of client-go, until it has all claims of the agent's cluster.

Claims are of about 600 bytes, spread over ten namespaces (files of 100,000: over a
hundred). API writes are counted by the API servers themselves (without leases),
commits by git. A change of "restart" is applied at the moment at which the agent is
started again. Many app clusters are known to the host and the bridge alone: each has a
repository, its claims, somebody who commits as its konnector, and who listens for events
as that does. Policies are the library's, each with a parameter. The API server of an app
cluster judges by eight of an offer at most, the bridge and reviews by all. Growth of a
branch is that of a clone that is repacked from scratch, in one thread, with and without
the changes. That of the whole repository is of a mirror, which git makes of what the host
has: it grows with both branches, and with each directory's tree that is kept whole once
more, which does not grow with the changes.

`

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func optional(v *float64) string {
	if v == nil {
		return ""
	}
	return number(*v)
}

func met(ok *bool) string {
	switch {
	case ok == nil:
		return ""
	case *ok:
		return "yes"
	}
	return "**no**"
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Missed are the figures that missed their targets.
func (r *Report) Missed() []Figure {
	return slices.DeleteFunc(slices.Clone(r.Figures), func(f Figure) bool { return f.OK == nil || *f.OK })
}
