// Package hostile has many tenants attack gitbind with their repositories, all at
// once, and measures what one innocent tenant notices. The backend and the bridge
// have no more memory than their deployments give them. The attacks are those that
// a tenant can make with the credential that it was given, and what a Git host
// could put into a repository; it attacks loopback only, and ends by itself.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// Options say what is to happen.
type Options struct {
	// Hostile is how many repositories attack, and Seed in which order.
	Hostile int
	Seed    uint64
	// Claims is how many claims the innocent orders, one after the other, alone
	// and during the attack.
	Claims int
	// BackendMemory and BridgeMemory are the limits of the two, in bytes; 0 for none.
	BackendMemory, BridgeMemory int64
	// Dir and Bin are the platform's.
	Dir, Bin string
	Out      io.Writer
}

// Report is what was measured.
type Report struct {
	Hostile, Claims int
	// Alone and Attacked are how long the innocent's claims took, in milliseconds.
	Alone, Attacked figure.Samples
	// BackendPeak and BridgePeak are bytes of memory with what git took, 0 where
	// there was no limit; Disk are bytes of all repositories.
	BackendPeak, BridgePeak, Disk int64
	// Ended names the processes that did not last.
	Ended []string
	// Attacks are how often each attack had which outcome.
	Attacks map[string]map[string]int
}

// ratio is how many times longer the innocent's p99 is during the attack.
func (r *Report) ratio() float64 { return r.Attacked.At(0.99) / r.Alone.At(0.99) }

// Err is an error if a process ended, or the innocent's p99 is more than most times
// what it is alone.
func (r *Report) Err(most float64) error {
	if len(r.Ended) > 0 {
		return fmt.Errorf("ended: %s", strings.Join(r.Ended, ", "))
	}
	if r.ratio() > most {
		return fmt.Errorf("p99 of the innocent's claims is %.1f times what it is alone, and should be %g at most", r.ratio(), most)
	}
	return nil
}

// Figures are those of docs/bench: the innocent's p99 is to be most times what it is alone.
func (r *Report) Figures(most float64) []figure.Figure {
	one := func(name, unit string, value int64) figure.Figure {
		return figure.One(name, r.Hostile, unit, float64(value))
	}
	attacks := 0
	for _, outcomes := range r.Attacks {
		for _, n := range outcomes {
			attacks += n
		}
	}
	return []figure.Figure{
		figure.Of("a claim of the innocent one: apply → claim on the control plane", r.Hostile, "ms", r.Attacked, r.Alone).
			Judged(figure.TailRatioAtMost(most, fmt.Sprintf("p99 ≤ %g × of alone", most))),
		figure.Of("the same, alone", r.Hostile, "ms", r.Alone, nil),
		one("attacks meanwhile", "attacks", int64(attacks)),
		one("processes that ended", "processes", int64(len(r.Ended))).Judged(figure.AtMost(0, "0")),
		one("memory of backend with its git processes, at most", "MiB", r.BackendPeak>>20),
		one("memory of the bridge, at most", "MiB", r.BridgePeak>>20),
		one("disk of all repositories", "MiB", r.Disk>>20),
	}
}

func (r *Report) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Attacks)) {
		fmt.Fprintf(&b, "%s\n", name)
		for _, outcome := range slices.Sorted(maps.Keys(r.Attacks[name])) {
			fmt.Fprintf(&b, "  %6d %s\n", r.Attacks[name][outcome], outcome)
		}
	}
	fmt.Fprintf(&b, "%d claims of the innocent one, apply → control plane, in ms: alone p50 %.0f, p99 %.0f; beside %d hostile repositories p50 %.0f, p99 %.0f (%.1f ×)\n",
		r.Claims, r.Alone.At(0.5), r.Alone.At(0.99), r.Hostile, r.Attacked.At(0.5), r.Attacked.At(0.99), r.ratio())
	fmt.Fprintf(&b, "memory at most: backend with git %d MiB, bridge %d MiB; disk of all repositories %d MiB; processes that ended: %v\n",
		r.BackendPeak>>20, r.BridgePeak>>20, r.Disk>>20, r.Ended)
	return b.String()
}

type run struct {
	*platform.Platform
	options Options
	claims  dynamic.ResourceInterface
	seen    *platform.Watch
}

// Run does everything once, on a platform of its own. The program has to begin with AttackIfAsked.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	p, err := platform.Start(ctx, platform.Options{
		Dir: o.Dir, Bin: o.Bin, Plain: true, Progress: o.Out,
		BackendArgs: []string{fmt.Sprintf("--max-clusters=%d", o.Hostile+1)},
		Env:         []string{platform.DeployedMemory},
	})
	if err != nil {
		return nil, err
	}
	var groups map[string]*memoryGroup
	defer func() {
		err = errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
		for _, g := range groups {
			err = errors.Join(err, g.remove())
		}
	}()
	r := &run{Platform: p, options: o}
	if groups, err = r.holdMemory(); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for _, g := range groups {
		go g.watch(watching)
	}
	if err := r.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	if report, err = r.measure(ctx); err != nil {
		return nil, err
	}
	report.BackendPeak, report.BridgePeak = groups["backend"].most(), groups["gitbridge"].most()
	return report, nil
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.options.Out, format+"\n", args...) }

func (r *run) holdMemory() (map[string]*memoryGroup, error) {
	groups := map[string]*memoryGroup{}
	for process, limit := range map[*env.Process]int64{r.Backend: r.options.BackendMemory, r.Bridge: r.options.BridgeMemory} {
		if limit == 0 {
			continue
		}
		g, err := holdMemory(process.Name, process.PID(), limit)
		if err != nil {
			return nil, err
		}
		groups[process.Name] = g
	}
	return groups, nil
}

// prepare connects the innocent app cluster, and binds the API.
func (r *run) prepare(ctx context.Context) error {
	if _, err := r.Connect(ctx, env.Alice, env.App); err != nil {
		return err
	}
	if _, err := r.Plugin(ctx, env.Alice, r.App(), "bind", "postgresql"); err != nil {
		return err
	}
	if _, err := r.Kubectl(ctx, r.App(), "create", "namespace", "team-a"); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(r.Cluster(env.App).Config())
	if err != nil {
		return err
	}
	r.claims = client.Resource(platform.PostgresqlInstances).Namespace("team-a")
	r.seen, err = r.Watch(ctx, env.Control, platform.PostgresqlInstances)
	return err
}

func (r *run) measure(ctx context.Context) (*Report, error) {
	report := &Report{Hostile: r.options.Hostile, Claims: r.options.Claims}
	pids := map[*env.Process]int{r.Backend: r.Backend.PID(), r.Bridge: r.Bridge.PID(), r.Konnector(env.App): r.Konnector(env.App).PID()}
	var err error
	if report.Alone, err = r.order(ctx, "alone"); err != nil {
		return nil, err
	}
	r.say("alone: p99 %.0f ms", report.Alone.At(0.99))
	hostile, err := r.connectHostile(ctx)
	if err != nil {
		return nil, err
	}
	attacking, err := startAttackers(ctx, r.options.Seed, hostile)
	if err != nil {
		return nil, err
	}
	r.say("%d hostile repositories attack", len(hostile))
	report.Attacked, err = r.order(ctx, "attacked")
	var ended error
	report.Attacks, ended = attacking.stop()
	if err = errors.Join(err, ended); err != nil {
		return nil, err
	}
	for process, pid := range pids {
		if process.PID() != pid {
			report.Ended = append(report.Ended, process.Name)
		}
	}
	report.Disk, err = diskUse(r.GitDir)
	return report, err
}

// order creates one claim after the other, and waits for each on the control plane.
func (r *run) order(ctx context.Context, prefix string) (figure.Samples, error) {
	var took figure.Samples
	for i := range r.options.Claims {
		name := fmt.Sprintf("%s-%d", prefix, i)
		waiting, cancel := context.WithTimeout(ctx, 3*time.Minute)
		began := time.Now()
		_, err := r.claims.Create(waiting, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "anynines.com/v1", "kind": "PostgresqlInstance", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"service": "a9s-postgresql13", "plan": "postgresql-single-nano"},
		}}, metav1.CreateOptions{})
		if err == nil {
			var e platform.Event
			e, err = r.seen.Until(waiting, name+" is on the control plane", func(e platform.Event) bool { return e.Type == watch.Added && e.Object.GetName() == name })
			took.Milliseconds(e.At.Sub(began))
		}
		cancel()
		if err != nil {
			return nil, err
		}
		sleep(ctx, 200*time.Millisecond)
	}
	return took, nil
}

// connectHostile registers clusters that do not exist: each has a repository.
func (r *run) connectHostile(ctx context.Context) ([]repository, error) {
	token, err := r.Dex.IDToken(ctx, env.Bob)
	if err != nil {
		return nil, err
	}
	var out []repository
	for i := range r.options.Hostile {
		c, err := r.Register(ctx, token, fmt.Sprintf("hostile-%d", i), fmt.Sprintf("hostile-%d", i))
		if err != nil {
			return nil, fmt.Errorf("register hostile cluster %d: %w", i, err)
		}
		_, email := contract.ComponentIdentity(contract.Konnector, c.ID)
		out = append(out, repository{c.RepositoryURL, email, c.Credential.Username, c.Credential.Password})
	}
	return out, nil
}

func diskUse(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // packs come and go
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes, err
}
