package stage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"k8s.io/client-go/discovery"

	"gitbind.dev/test/env"
)

// Usage is what a process has used.
type Usage struct {
	// CPU includes that of children that have ended.
	CPU time.Duration
	// Resident is in bytes, and Peak its highest since the process began.
	Resident, Peak uint64
}

// userHZ is the unit of /proc's times on all of Linux.
const userHZ = 100

// Of is the usage of a process so far.
func Of(p *env.Process) (Usage, error) {
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		return Usage{}, fmt.Errorf("look at %s: %w", p.Name, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("look at %s: %w", p.Name, err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return Usage{}, fmt.Errorf("look at %s: %w", p.Name, err)
	}
	ticks := int(stat.UTime) + int(stat.STime) + int(stat.CUTime) + int(stat.CSTime)
	return Usage{CPU: time.Duration(ticks) * time.Second / userHZ, Resident: status.VmRSS, Peak: status.VmHWM}, nil
}

// Usages are those of all processes, by name.
func (s *Stage) Usages() (map[string]Usage, error) {
	out := map[string]Usage{}
	for _, p := range s.Processes() {
		if p.PID() == 0 {
			continue
		}
		u, err := Of(p)
		if err != nil {
			return nil, err
		}
		out[p.Name] = u
	}
	return out, nil
}

// Writes counts the writes that an API server has taken, by
// "VERB resource[/subresource]", as it counts them itself. Leases are not among
// them, nor questions that have the form of writes.
type Writes map[string]int

// Writes are those of a cluster so far.
func (s *Stage) Writes(ctx context.Context, cluster string) (Writes, error) {
	client, err := discovery.NewDiscoveryClientForConfig(s.Cluster(cluster).Config())
	if err != nil {
		return nil, err
	}
	text, err := client.RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", cluster, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(onlyRequests(text)))
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", cluster, err)
	}
	out := Writes{}
	for _, m := range families[requestTotal].GetMetric() {
		l := labels(m)
		switch l["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		if l["resource"] == "leases" || strings.HasSuffix(l["resource"], "reviews") || l["dry_run"] != "" || l["subresource"] == "token" {
			continue
		}
		if code, _ := strconv.Atoi(l["code"]); code >= 300 {
			continue
		}
		what := l["resource"]
		if l["subresource"] != "" {
			what += "/" + l["subresource"]
		}
		out[l["verb"]+" "+what] += int(m.GetCounter().GetValue())
	}
	return out, nil
}

const requestTotal = "apiserver_request_total"

// onlyRequests leaves the thousands of other lines out.
func onlyRequests(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(requestTotal)) || bytes.HasPrefix(line, []byte("# TYPE "+requestTotal)) {
			out.Write(line)
		}
	}
	return out.Bytes()
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// Since are the writes after others were counted.
func (w Writes) Since(before Writes) Writes {
	out := maps.Clone(w)
	for k, n := range before {
		if out[k] -= n; out[k] == 0 {
			delete(out, k)
		}
	}
	return out
}

// Of are how many there are of one resource.
func (w Writes) Of(resource string) int {
	n := 0
	for k, v := range w {
		_, what, _ := strings.Cut(k, " ")
		if what, _, _ = strings.Cut(what, "/"); what == resource {
			n += v
		}
	}
	return n
}

// All are how many there are.
func (w Writes) All() int {
	n := 0
	for _, v := range w {
		n += v
	}
	return n
}

// Commits are how many each branch of the app cluster's repository has.
func (s *Stage) Commits(ctx context.Context) (main, status int, err error) {
	for branch, n := range map[string]*int{"main": &main, "status": &status} {
		out, err := Git(ctx, s.Repository(), "rev-list", "--count", branch)
		if err != nil {
			return 0, 0, err
		}
		if *n, err = strconv.Atoi(out); err != nil {
			return 0, 0, err
		}
	}
	return main, status, nil
}

// Quiet waits until nothing was committed and written for a while.
func (s *Stage) Quiet(ctx context.Context, still time.Duration) error {
	var last string
	since := time.Now()
	for {
		now, err := s.state(ctx)
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) >= still {
			return nil
		}
		select {
		case <-time.After(still / 4):
		case <-ctx.Done():
			return fmt.Errorf("wait for quiet: %w; it goes on: %s", context.Cause(ctx), now)
		}
	}
}

// state is another when something was written or committed.
func (s *Stage) state(ctx context.Context) (string, error) {
	main, status, err := s.Commits(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d commits on main, %d on status", main, status)
	for _, cluster := range []string{env.App, env.Control} {
		w, err := s.Writes(ctx, cluster)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf(", %v in %s", map[string]int(w), cluster)
	}
	return text, nil
}
