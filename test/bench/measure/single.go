package measure

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

const (
	shortTime = 30 * time.Second
	// still is how long nothing is written where nothing is going on.
	still = 1500 * time.Millisecond
)

// way is one of the two, and what was measured on it.
type way struct {
	resource schema.GroupVersionResource
	names    []string
	// answered is when the app cluster's API server had taken what was applied.
	answered, apply, edit, down figure.Samples
}

// changes measures one change at a time, on an idle system, in turns with the
// relay.
func (r *run) changes(ctx context.Context) error {
	n := 100
	switch {
	case r.Quick:
		n = 20
	case r.host != "":
		n = 30 // Each takes a second or two.
	}
	if err := r.Quiet(ctx, still); err != nil {
		return err
	}
	floor := &way{resource: stage.Floor, names: r.newNames("s", n)}
	subject := &way{resource: stage.Subject, names: r.newNames("s", n)}
	for i := range n {
		for _, w := range []*way{floor, subject} {
			if err := r.apply(ctx, w, i); err != nil {
				return err
			}
		}
	}
	if err := r.inTurns(ctx, n, "edit", r.edit, floor, subject); err != nil {
		return err
	}
	if err := r.inTurns(ctx, n, "status", r.status, floor, subject); err != nil {
		return err
	}
	r.add(figure.Of("kubectl apply → claim on the control plane", r.size, "ms", subject.apply, floor.apply).Judged(figure.RatioAtMost(2, "≤ 2 × the floor")))
	r.add(figure.Of("edit in the app cluster → claim changed on the control plane", r.size, "ms", subject.edit, floor.edit).Judged(figure.RatioAtMost(2, "≤ 2 × the floor")))
	r.add(figure.Of("status on the control plane → status in the app cluster", r.size, "ms", subject.down, floor.down).Judged(figure.RatioAtMost(2, "≤ 2 × the floor")))
	return nil
}

// apply sends the i-th claim through, up and back.
func (r *run) apply(ctx context.Context, w *way, i int) error {
	ctx, cancel := deadline(ctx, shortTime, "one claim")
	defer cancel()
	began := time.Now()
	if err := r.Create(ctx, w.resource, stage.Namespace(i%namespaces), w.names[i]); err != nil {
		return err
	}
	w.answered.Milliseconds(time.Since(began))
	s, err := r.SeenControl.Until(ctx, w.resource, w.names[i], stage.There)
	if err != nil {
		return err
	}
	w.apply.Milliseconds(s.First.Sub(began))
	_, err = r.SeenApp.Until(ctx, w.resource, w.names[i], returned(w.resource))
	return err
}

// inTurns makes a kind of change n times on either way, and counts what each
// takes beside the change itself.
func (r *run) inTurns(ctx context.Context, n int, kind string, change func(context.Context, *way, int) error, floor, subject *way) error {
	if err := r.Quiet(ctx, still); err != nil {
		return err
	}
	before, err := r.count(ctx)
	if err != nil {
		return err
	}
	repository, err := r.past(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		for _, w := range []*way{floor, subject} {
			if err := change(ctx, w, i); err != nil {
				return fmt.Errorf("%s of %s: %w", kind, w.names[i], err)
			}
		}
	}
	if err := r.Quiet(ctx, still); err != nil {
		return err
	}
	after, err := r.count(ctx)
	if err != nil || r.host != "" {
		return err // As in countedBurst.
	}
	c, per := after.since(before), 1/float64(n)
	app, control := c.writes()
	r.say("  requests for %d changes of %s: %v and %v", n, kind, map[string]int(c.app.Of(stage.Subject.Resource)), map[string]int(c.control.Of(stage.Subject.Resource)))
	if kind == "status" {
		r.add(figure.One("writes in the app cluster per status change", r.size, "writes", app*per).Judged(figure.AtMost(1, "1")))
		r.add(figure.One("commits on status per status change", r.size, "commits", float64(c.status)*per))
		return nil
	}
	r.add(figure.One("writes in the app cluster per edit, beside the person's", r.size, "writes", app*per-1).Judged(figure.AtMost(2, "≤ 2")))
	r.add(figure.One("writes on the control plane per edit", r.size, "writes", control*per).Judged(figure.AtMost(1, "1")))
	r.add(figure.One("commits on main per edit", r.size, "commits", float64(c.main)*per).Judged(figure.AtMost(1, "1")))
	r.add(figure.One("commits on status per edit", r.size, "commits", float64(c.status)*per))
	return r.growth(ctx, n, repository)
}

// edited is what a change makes of a claim's maxConnections.
const edited = 240

func isEdited(s stage.Sight) bool { return s.MaxConnections == edited }

// edit changes one field of the i-th claim.
func (r *run) edit(ctx context.Context, w *way, i int) error {
	ctx, cancel := deadline(ctx, shortTime, "one edit")
	defer cancel()
	patch := []byte(`{"spec":{"parameters":{"maxConnections":` + strconv.Itoa(edited) + `}}}`)
	began := time.Now()
	if _, err := r.App.Resource(w.resource).Namespace(stage.Namespace(i%namespaces)).Patch(ctx, w.names[i], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	s, err := r.SeenControl.Until(ctx, w.resource, w.names[i], isEdited)
	if err != nil {
		return err
	}
	w.edit.Milliseconds(s.Changed.Sub(began))
	_, err = r.SeenApp.Until(ctx, w.resource, w.names[i], func(s stage.Sight) bool { return isEdited(s) && returned(w.resource)(s) })
	return err
}

// status changes the status of the i-th claim.
func (r *run) status(ctx context.Context, w *way, i int) error {
	ctx, cancel := deadline(ctx, shortTime, "one status")
	defer cancel()
	const value = "Resizing"
	began := time.Now()
	if err := r.Report(ctx, w.resource, r.Far(w.resource, stage.Namespace(i%namespaces)), w.names[i], value); err != nil {
		return err
	}
	s, err := r.SeenApp.Until(ctx, w.resource, w.names[i], func(s stage.Sight) bool { return s.ClusterStatus == value })
	if err != nil {
		return err
	}
	w.down.Milliseconds(s.Reported.Sub(began))
	return nil
}

// restartTarget is for any number of claims.
var restartTarget = figure.Target{Words: "≤ 1.5 s, ≤ 3 × the floor", Met: func(f figure.Figure) bool { return f.P50 <= 1.5 && f.Ratio != nil && *f.Ratio <= 3 }}

// restarts measures how soon each agent works again, and what it writes though
// nothing has changed.
func (r *run) restarts(ctx context.Context) error {
	for _, agent := range []struct {
		name    string
		process *env.Process
		objects dynamic.Interface
	}{{"konnector", r.Konnector(env.App), r.App}, {"bridge", r.Bridge, r.Control}} {
		var first, floor, again figure.Samples
		for range 3 {
			sync, err := bareSync(ctx, agent.objects)
			if err != nil {
				return err
			}
			floor.Seconds(sync)
			d, err := r.restartWithChange(ctx, agent.process)
			if err != nil {
				return fmt.Errorf("%s: %w", agent.name, err)
			}
			first.Seconds(d)
			if r.Quick {
				break
			}
		}
		n, err := r.restartInPeace(ctx, agent.process)
		if err != nil {
			return fmt.Errorf("%s: %w", agent.name, err)
		}
		again = append(again, float64(n))
		r.add(figure.Of("restart of the "+agent.name+" → first new change through", r.size, "s", first, floor).Judged(restartTarget))
		r.add(figure.Of("restart of the "+agent.name+": writes and commits that change nothing", r.size, "writes", again, nil).Judged(figure.AtMost(0, "0")))
	}
	return nil
}

// bareSync is how long a bare informer takes until it has all claims of a cluster.
func bareSync(ctx context.Context, client dynamic.Interface) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(stage.Subject).Informer()
	began := time.Now()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return 0, fmt.Errorf("a bare informer does not sync: %w", ctx.Err())
	}
	return time.Since(began), nil
}

func (r *run) restartWithChange(ctx context.Context, p *env.Process) (time.Duration, error) {
	if err := p.Stop(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := deadline(ctx, 2*time.Minute, "a change after a restart")
	defer cancel()
	name := r.newNames("r", 1)[0]
	started := make(chan error, 1)
	began := time.Now()
	go func() { started <- p.Start(ctx) }()
	defer r.profileStart(ctx, p.Name)()
	if err := r.Create(ctx, stage.Subject, stage.Namespace(0), name); err != nil {
		return 0, err
	}
	s, err := r.SeenControl.Until(ctx, stage.Subject, name, stage.There)
	if err != nil {
		return 0, err
	}
	if err := <-started; err != nil {
		return 0, err
	}
	if _, err := r.SeenApp.Until(ctx, stage.Subject, name, returned(stage.Subject)); err != nil {
		return 0, err
	}
	return s.First.Sub(began), r.Quiet(ctx, still)
}

// restartInPeace restarts an agent that has nothing to do, and counts what it
// writes.
func (r *run) restartInPeace(ctx context.Context, p *env.Process) (int, error) {
	before, err := r.count(ctx)
	if err != nil {
		return 0, err
	}
	if err := p.Stop(ctx); err != nil {
		return 0, err
	}
	if err := p.Start(ctx); err != nil {
		return 0, err
	}
	// A change goes through after all that the start itself brings about.
	if err := r.Quiet(ctx, 5*time.Second); err != nil {
		return 0, err
	}
	after, err := r.count(ctx)
	if err != nil {
		return 0, err
	}
	c := after.since(before)
	app, control := c.writes()
	if all := c.app.Writes().All() + c.control.Writes().All(); all+c.main+c.status > 0 {
		r.say("  after a restart in peace: %d commits on main, %d on status, writes %v and %v", c.main, c.status, map[string]int(c.app.Writes()), map[string]int(c.control.Writes()))
	}
	return int(app+control) + c.main + c.status, nil
}

// idle looks whether nothing happens where nothing is going on.
func (r *run) idle(ctx context.Context) error {
	rest := time.Minute
	switch {
	case r.Quick:
		rest = 10 * time.Second
	case r.size >= 100_000:
		// Go collects what a burst left behind two minutes later, and gives it back little by
		// little.
		rest = 5 * time.Minute
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	before, err := r.count(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := r.count(ctx)
	if err != nil {
		return err
	}
	c := after.since(before)
	writes := c.app.Writes().All() + c.control.Writes().All()
	if writes > 0 {
		r.say("  while idle: %v and %v", map[string]int(c.app.Writes()), map[string]int(c.control.Writes()))
	}
	r.add(figure.One("idle: writes to both API servers in "+rest.String(), r.size, "writes", float64(writes)).Judged(figure.AtMost(0, "0")))
	r.add(figure.One("idle: commits in "+rest.String(), r.size, "commits", float64(c.main+c.status)).Judged(figure.AtMost(0, "0")))
	for _, p := range r.measured() {
		u := after.usages[p.Name]
		memory := figure.One("memory of "+p.Name+", idle", r.size, "MiB", float64(u.Resident)/(1<<20))
		cpu := figure.One("CPU of "+p.Name+" in an idle "+rest.String(), r.size, "s", (u.CPU - before.usages[p.Name].CPU).Seconds())
		if p != r.Backend {
			memory = memory.Judged(figure.AtMost(600, "< 600 MiB at 100,000"))
			cpu = cpu.Judged(figure.AtMost(0.005*rest.Seconds(), "≤ 0.5 % of a core"))
		}
		r.add(memory)
		r.add(cpu)
	}
	r.profileHeaps(ctx, "idle")
	return nil
}

// settle waits until what was done before has come to its end.
func (r *run) settle(ctx context.Context) error {
	ctx, cancel := deadline(ctx, 2*time.Minute, "the agents to come to rest")
	defer cancel()
	if err := r.Saved(ctx); err != nil {
		return err
	}
	return r.Quiet(ctx, still)
}
