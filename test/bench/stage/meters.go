package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// Usage is what a process has used.
type Usage struct {
	// CPU includes that of children that have ended.
	CPU time.Duration
	// Resident is in bytes, and Peak its highest since the process began.
	Resident, Peak uint64
	Threads        int
}

// userHZ is the unit of /proc's times on all of Linux.
const userHZ = 100

// Of is the usage of a process so far.
func Of(p *env.Process) (Usage, error) { return of(p.Name, p.PID()) }

func of(name string, pid int) (Usage, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("look at %s: %w", name, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("look at %s: %w", name, err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return Usage{}, fmt.Errorf("look at %s: %w", name, err)
	}
	ticks := int(stat.UTime) + int(stat.STime) + stat.CUTime + stat.CSTime
	return Usage{CPU: time.Duration(ticks) * time.Second / userHZ, Resident: status.VmRSS, Peak: status.VmHWM, Threads: stat.NumThreads}, nil
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
	// The clients, the relay and the eyes.
	own, err := of("the measuring process", os.Getpid())
	out["the measuring process"] = own
	return out, err
}

// Requests counts what an API server was asked, by "VERB resource[/subresource]",
// as it counts that itself. Leases are not among them, nor questions that have the
// form of writes, nor watches. What failed ends in the answer's code.
type Requests map[string]int

// Requests are those of a cluster so far.
func (s *Stage) Requests(ctx context.Context, cluster string) (Requests, error) {
	all, err := s.metricsOf(ctx, cluster, "apiserver_request_total")
	if err != nil {
		return nil, err
	}
	out := Requests{}
	for _, m := range all {
		l := labels(m)
		if l["verb"] == "WATCH" || l["resource"] == "" || l["resource"] == "leases" || strings.HasSuffix(l["resource"], "reviews") || l["dry_run"] != "" || l["subresource"] == "token" {
			continue
		}
		what := l["verb"] + " " + l["resource"]
		if l["subresource"] != "" {
			what += "/" + l["subresource"]
		}
		if code, _ := strconv.Atoi(l["code"]); code >= 300 {
			what += " " + l["code"]
		}
		out[what] += int(m.GetCounter().GetValue())
	}
	return out, nil
}

// Writes are those that changed something, or might have.
func (r Requests) Writes() Requests {
	out := Requests{}
	for k, n := range r {
		switch verb, rest, _ := strings.Cut(k, " "); verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
			if !strings.Contains(rest, " ") {
				out[k] = n
			}
		}
	}
	return out
}

// Stored is the size of a cluster's etcd in bytes.
func (s *Stage) Stored(ctx context.Context, cluster string) (float64, error) {
	all, err := s.metricsOf(ctx, cluster, "apiserver_storage_size_bytes")
	sum := 0.0
	for _, m := range all {
		sum += m.GetGauge().GetValue()
	}
	return sum, err
}

// metricsOf are those of an API server with one name.
func (s *Stage) metricsOf(ctx context.Context, cluster, name string) ([]*dto.Metric, error) {
	client, err := discovery.NewDiscoveryClientForConfig(s.Cluster(cluster).Config())
	if err != nil {
		return nil, err
	}
	text, err := client.RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", cluster, err)
	}
	found, err := metrics(cluster, text, name)
	return found[name].GetMetric(), err
}

// Counters are the sums of a component's counters over all their labels, by name.
func (s *Stage) Counters(ctx context.Context, p *env.Process, names ...string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.MetricsURL(p.Name), http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	found, err := metrics(p.Name, text, names...)
	sums := map[string]float64{}
	for _, name := range names {
		for _, m := range found[name].GetMetric() {
			sums[name] += m.GetCounter().GetValue()
		}
	}
	return sums, err
}

// metrics are those with some names, of the thousands in a component's page.
func metrics(component string, page []byte, names ...string) (map[string]*dto.MetricFamily, error) {
	var lines bytes.Buffer
	for line := range bytes.Lines(page) {
		for _, name := range names {
			if bytes.HasPrefix(line, []byte(name)) || bytes.HasPrefix(line, []byte("# TYPE "+name)) {
				lines.Write(line)
			}
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&lines)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", component, err)
	}
	return families, nil
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// Since are the requests after others were counted.
func (r Requests) Since(before Requests) Requests {
	out := maps.Clone(r)
	for k, n := range before {
		if out[k] -= n; out[k] == 0 {
			delete(out, k)
		}
	}
	return out
}

// Of are those for one resource.
func (r Requests) Of(resource string) Requests {
	out := Requests{}
	for k, n := range r {
		if what := strings.Fields(k)[1]; what == resource || strings.HasPrefix(what, resource+"/") {
			out[k] = n
		}
	}
	return out
}

// All are how many there are.
func (r Requests) All() int {
	n := 0
	for _, v := range r {
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

// Saved waits until the konnector has saved which commit of main it accepted
// last. It does so within a minute of the first one.
func (s *Stage) Saved(ctx context.Context) error {
	head, err := Git(ctx, s.Repository(), "rev-parse", "main")
	if err != nil {
		return err
	}
	connections := s.App.Resource(v1alpha1.GroupVersion.WithResource("connections"))
	for {
		all, err := connections.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		saved, _, err := unstructured.NestedString(all.Items[0].Object, "status", "acceptedCommit")
		if err != nil || saved == strings.TrimSpace(head) {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("wait for what was accepted to be saved: %w; %s is, and main is at %s", context.Cause(ctx), saved, head)
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
		all, err := s.Requests(ctx, cluster)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf(", %v in %s", map[string]int(all.Writes()), cluster)
	}
	return text, nil
}
