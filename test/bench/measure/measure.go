// Package measure takes the figures of DESIGN's section on speed, each beside
// its floor.
package measure

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/relay"
	"gitbind.dev/test/bench/stage"
)

// Options say what to measure.
type Options struct {
	// Sizes are how many claims there are; each has a platform of its own.
	Sizes []int
	// Quick takes fewer samples.
	Quick bool
	// Clusters are how many app clusters there are in the step of that name, ClaimsOfEach
	// how many claims each has, and Shards how many bridges follow them (0: one).
	Clusters, ClaimsOfEach, Shards int
	// Only are the steps to take, of Steps; none: all of them.
	Only []string
	// Bin holds the built components.
	Bin string
	// Profiles is a folder for CPU profiles during bursts and starts; "" for
	// none.
	Profiles string
	// Progress is told what goes on.
	Progress io.Writer
}

// Steps are what can be measured, in order. Without bursts, the claims that the
// others need are there beforehand. Pushes are taken with the last size alone; policies,
// and those of alone, with the first.
var Steps = []string{"bursts", "changes", "restarts", "idleness", "secrets", "reviews", "policies", "pushes", "trace", "gitea", "clusters"}

// alone are the steps that have a platform of their own: to log requests takes time, Gitea
// has the repositories in place of the embedded host, and many app clusters stay.
var alone = []string{"trace", "gitea", "clusters"}

// onGitea is the host of the step gitea.
const onGitea = "Gitea"

// namespaces are over how many the claims are spread.
const namespaces = 10

// run measures on one platform.
type run struct {
	*stage.Stage
	Options
	// life is the platform's.
	life context.Context
	size int
	// host is what has the repositories in place of the embedded host.
	host   string
	report *figure.Report
	relay  *relay.Relay
	// names counts the names given out, so that each is new.
	names int
}

// All takes all figures.
func All(ctx context.Context, o Options) (*figure.Report, error) {
	r := figure.Begin()
	r.Quick = o.Quick
	for i, size := range o.Sizes {
		steps := o.Only
		if len(steps) == 0 {
			steps = Steps
		}
		together := slices.DeleteFunc(slices.Clone(steps), func(s string) bool {
			// Pushes have repositories of their own, and need a platform only once.
			return slices.Contains(alone, s) || s == "policies" && i > 0 || s == "pushes" && i < len(o.Sizes)-1
		})
		platforms := [][]string{together}
		for _, name := range alone {
			if i == 0 && slices.Contains(steps, name) {
				platforms = append(platforms, []string{name})
			}
		}
		for _, steps := range platforms {
			if len(steps) == 0 {
				continue
			}
			if err := one(ctx, o, size, steps, r); err != nil {
				return nil, fmt.Errorf("measure at %d: %w", size, err)
			}
		}
	}
	r.Took = time.Since(r.Began)
	return r, nil
}

func one(ctx context.Context, o Options, size int, steps []string, report *figure.Report) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Options: o, life: ctx, size: size, report: report}
	switch {
	case slices.Contains(steps, "gitea"):
		r.host = onGitea
	case slices.Contains(steps, "clusters"):
		r.size = o.Clusters
	}
	r.say("start a platform")
	r.Stage, err = stage.Start(ctx, stage.Options{Bin: o.Bin, Namespaces: namespaces, Shards: o.Shards, ManyClusters: slices.Contains(steps, "clusters"), Profile: o.Profiles != "", Trace: slices.Contains(steps, "trace"), Gitea: r.host == onGitea, Progress: o.Progress})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, r.logs())
		}
		if stop := r.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stop
		}
	}()
	r.relay = &relay.Relay{Resource: stage.Floor, From: r.App, To: r.Control}
	if err := r.relay.Run(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(steps, needsClaims) && !slices.ContainsFunc(steps, makesClaims) {
		r.say("claims")
		if _, err := r.burst(ctx, stage.Subject, size); err != nil {
			return fmt.Errorf("claims: %w", err)
		}
	}
	measure := map[string]func(context.Context) error{
		"bursts": r.bursts, "changes": r.changes, "restarts": r.restarts, "idleness": r.idle, "secrets": r.secrets,
		"reviews": r.reviews, "policies": r.policies, "pushes": r.pushes, "trace": r.trace, "gitea": r.gitea, "clusters": r.clusters,
	}
	for _, name := range Steps {
		if !slices.Contains(steps, name) {
			continue
		}
		r.say("%s", name)
		if err := measure[name](ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func makesClaims(step string) bool { return step == "bursts" || step == "gitea" }

func needsClaims(step string) bool { return step != "pushes" && step != "clusters" }

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.Progress, "%s  %6d  %s\n", time.Now().Format("15:04:05"), r.size, fmt.Sprintf(format, args...))
}

func (r *run) add(f figure.Figure) {
	if f.Host = r.host; r.host != "" {
		f.Target, f.OK = "", nil // The targets are for the embedded host.
	}
	r.report.Add(f)
	text := fmt.Sprintf("  %s: %g %s", f.Title(), f.P50, f.Unit)
	if f.Ratio != nil {
		text += fmt.Sprintf(", %g times the floor of %g", *f.Ratio, *f.Floor)
	}
	if f.OK != nil && !*f.OK {
		text += " MISSED: " + f.Target
	}
	r.say("%s", text)
}

// logs are the ends of the logs of what is measured.
func (r *run) logs() string {
	const end = 3000
	var out string
	for _, p := range r.measured() {
		data, err := os.ReadFile(p.LogPath)
		if err != nil {
			continue
		}
		out += fmt.Sprintf("the end of %s:\n%s\n", filepath.Base(p.LogPath), data[max(0, len(data)-end):])
	}
	return out
}

// newNames are for objects that are to be made.
func (r *run) newNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		r.names++
		names[i] = fmt.Sprintf("%s-%06d", prefix, r.names)
	}
	return names
}

// creators is how many clients create at once.
const creators = 16

// create creates objects, spread over the namespaces.
func (r *run) create(ctx context.Context, resource schema.GroupVersionResource, names []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i, name := range names {
		group.Go(func() error { return r.Create(ctx, resource, stage.Namespace(i%namespaces), name) })
	}
	return group.Wait()
}

// deadline is for a wait that should be over long before.
func deadline(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s: not within %s", what, d))
}

// returned is a claim of which the app cluster knows all that there is to know.
func returned(resource schema.GroupVersionResource) func(stage.Sight) bool {
	return func(s stage.Sight) bool {
		return stage.Returned(s) && (resource == stage.Floor || s.Applied)
	}
}
