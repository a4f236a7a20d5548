package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

// atRest notes what the bridge and the host take while nothing happens.
func (r *run) atRest(ctx context.Context, alone map[string]stage.Usage) error {
	rest := time.Minute
	if r.Quick {
		rest = 10 * time.Second
	}
	before, err := r.Usages()
	if err != nil {
		return err
	}
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := r.Usages()
	if err != nil {
		return err
	}
	for _, component := range [][]*env.Process{r.Bridges, {r.Backend}} {
		name, followed := component[0].Name, r.size/len(component)
		of, together := name, name
		if n := len(component); n > 1 {
			of, together = fmt.Sprintf("the largest %s of %d", name, n), fmt.Sprintf("%d %ss together", n, name)
		}
		var largest, first stage.Usage
		var cpu time.Duration
		for _, p := range component {
			if now := after[p.Name]; now.Resident > largest.Resident {
				largest, first = now, alone[p.Name]
			}
			cpu += after[p.Name].CPU - before[p.Name].CPU
		}
		r.add(figure.One("memory of "+of+" with so many app clusters", r.size, "MiB", float64(largest.Resident)/(1<<20)))
		if followed > 1 {
			r.add(figure.One("memory of "+of+" for each further app cluster", r.size, "KiB", (float64(largest.Resident)-float64(first.Resident))/float64(followed-1)/(1<<10)))
		}
		r.add(figure.One("threads of "+of, r.size, "threads", float64(largest.Threads)))
		r.add(figure.One("CPU of "+together+" with so many app clusters in an idle "+rest.String(), r.size, "s", cpu.Seconds()))
	}
	stored, err := r.Stored(ctx, env.Control)
	if err != nil {
		return err
	}
	r.add(figure.One("etcd of the control plane with so many app clusters", r.size, "MiB", stored/(1<<20)))
	r.add(figure.One("memory of the control plane's API server with so many app clusters", r.size, "MiB", float64(after[env.Control+"-kube-apiserver"].Resident)/(1<<20)))
	return nil
}

// allAtOnce has each app cluster change a claim, at the same time.
func (r *run) allAtOnce(ctx context.Context, all []*appCluster) error {
	const value = 5000
	names := r.newNames("c", len(all))
	if err := r.create(ctx, stage.Floor, names); err != nil {
		return err
	}
	if _, err := r.SeenApp.UntilAll(ctx, stage.Floor, names, returned(stage.Floor)); err != nil {
		return err
	}
	relayed := time.Now()
	group, editing := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i, name := range names {
		group.Go(func() error {
			patch := fmt.Appendf(nil, `{"spec":{"parameters":{"maxConnections":%d}}}`, edited)
			_, err := r.App.Resource(stage.Floor).Namespace(stage.Namespace(i%namespaces)).Patch(editing, name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if _, err := r.SeenControl.UntilAll(ctx, stage.Floor, names, isEdited); err != nil {
		return err
	}
	floor := time.Since(relayed)
	before, err := r.work(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.changeAll(ctx, all, value); err != nil {
		return err
	}
	last, err := r.seesAll(ctx, all, value)
	if err != nil {
		return err
	}
	r.add(figure.Of("a commit of each app cluster at once → last claim changed on the control plane", r.size, "s",
		figure.Samples{last.Sub(began).Seconds()}, figure.Samples{floor.Seconds()}))
	r.add(figure.One("changes at once: changes that arrive", r.size, "per second", float64(len(all))/last.Sub(began).Seconds()))
	if err := r.Quiet(ctx, still); err != nil {
		return err
	}
	after, err := r.work(ctx)
	if err != nil {
		return err
	}
	for _, what := range slices.Sorted(maps.Keys(after)) {
		r.add(figure.One("changes at once: "+what, r.size, "per change", (after[what]-before[what])/float64(len(all))))
	}
	return nil
}

// work counts what the bridges have done so far.
func (r *run) work(ctx context.Context) (map[string]float64, error) {
	requests, err := r.Requests(ctx, env.Control)
	if err != nil {
		return nil, err
	}
	work := map[string]float64{"requests to the control plane": float64(requests.Of(stage.Subject.Resource).All())}
	const fetches, commits = "gitbind_git_fetches_total", "gitbind_git_commits_total"
	for _, bridge := range r.Bridges {
		n, err := r.Counters(ctx, bridge, fetches, commits)
		if err != nil {
			return nil, err
		}
		work["fetches of bridges"] += n[fetches]
		work["commits of bridges"] += n[commits]
	}
	return work, nil
}

// allAfterRestart has the bridge find a change of each app cluster when it starts.
func (r *run) allAfterRestart(ctx context.Context, all []*appCluster) error {
	const value = 6000
	if err := r.Bridge.Stop(ctx); err != nil {
		return err
	}
	if err := r.changeAll(ctx, all, value); err != nil {
		return err
	}
	began := time.Now()
	if err := r.Bridge.Start(ctx); err != nil {
		return err
	}
	last, err := r.seesAll(ctx, all, value)
	if err != nil {
		return err
	}
	restarted := "the bridge"
	if n := len(r.Bridges); n > 1 {
		restarted = fmt.Sprintf("one bridge of %d", n)
	}
	f := figure.One("restart of "+restarted+" → a waiting change of each app cluster is through", r.size, "s", last.Sub(began).Seconds())
	if r.size <= 200 {
		f = f.Judged(figure.AtMost(30, "≤ 30 s at 200"))
	}
	r.add(f)
	return r.Quiet(ctx, still)
}

func (r *run) changeAll(ctx context.Context, all []*appCluster, value int) error {
	return each(ctx, all, creators, func(ctx context.Context, c *appCluster) error { return c.change(ctx, len(c.claims)-1, value) })
}

// seesAll waits until the last claim of each has a value, and tells when the last had it.
func (r *run) seesAll(ctx context.Context, all []*appCluster, value int) (last time.Time, err error) {
	ctx, cancel := deadline(ctx, manyTime, "a change of each app cluster")
	defer cancel()
	for _, c := range all {
		s, err := r.sees(ctx, c.claims[len(c.claims)-1], value)
		if err != nil {
			return last, err
		}
		if s.Changed.After(last) {
			last = s.Changed
		}
	}
	return last, nil
}
