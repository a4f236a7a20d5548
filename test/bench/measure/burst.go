package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

// burst is what came of many objects at once.
type burst struct {
	// up is from the first apply to the last object on the control plane, round
	// to the last status in the app cluster.
	up, round time.Duration
	// own is how long each took on its own, up.
	own figure.Samples
	// cpu is what all processes used until then.
	cpu time.Duration
}

// burst creates objects and waits for all of them, and for all of their
// statuses.
func (r *run) burst(ctx context.Context, resource schema.GroupVersionResource, n int) (burst, error) {
	ctx, cancel := deadline(ctx, 2*time.Minute+time.Duration(n)*200*time.Millisecond, "a burst")
	defer cancel()
	names := r.newNames("b", n)
	began := time.Now()
	if err := r.create(ctx, resource, names); err != nil {
		return burst{}, err
	}
	there, err := r.SeenControl.UntilAll(ctx, resource, names, stage.There)
	if err != nil {
		return burst{}, err
	}
	here, err := r.SeenApp.UntilAll(ctx, resource, names, returned(resource))
	if err != nil {
		return burst{}, err
	}
	var b burst
	for i, s := range there {
		b.up = max(b.up, s.First.Sub(began))
		b.own.Milliseconds(s.First.Sub(here[i].First))
		b.round = max(b.round, here[i].Reported.Sub(began))
	}
	return b, nil
}

// bursts measures bursts in turns with the relay's.
func (r *run) bursts(ctx context.Context) error {
	rounds := 1
	if r.size <= 1000 && !r.Quick && r.host == "" {
		rounds = 3
	}
	var up, upFloor, round, roundFloor, own, ownFloor, cpu, cpuFloor figure.Samples
	for i := range rounds {
		before, err := r.Usages()
		if err != nil {
			return err
		}
		floor, err := r.burst(ctx, stage.Floor, r.size)
		if err != nil {
			return fmt.Errorf("the relay: %w", err)
		}
		spent, err := r.noteUsages("a burst through the relay", before, i == 0)
		if err != nil {
			return err
		}
		cpuFloor.Seconds(spent)
		if err := r.Quiet(ctx, time.Second); err != nil {
			return err
		}
		subject, err := r.countedBurst(ctx, i == 0)
		if err != nil {
			return err
		}
		upFloor.Seconds(floor.up)
		roundFloor.Seconds(floor.round)
		up.Seconds(subject.up)
		round.Seconds(subject.round)
		cpu.Seconds(subject.cpu)
		own, ownFloor = append(own, subject.own...), append(ownFloor, floor.own...)
	}
	r.add(figure.Of("burst: first apply → last claim on the control plane", r.size, "s", up, upFloor).Judged(figure.RatioAtMost(1.3, "≤ 1.3 × the floor")))
	r.add(figure.Of("burst: first apply → last status in the app cluster", r.size, "s", round, roundFloor))
	r.add(figure.Of("burst: CPU of all processes until then", r.size, "s", cpu, cpuFloor).Judged(figure.RatioAtMost(1.6, "≤ 1.6 × the floor")))
	r.add(figure.Of("burst: each claim's own way to the control plane", r.size, "ms", own, ownFloor))
	return nil
}

// countedBurst is a burst of claims; the first one's cost is noted.
func (r *run) countedBurst(ctx context.Context, note bool) (burst, error) {
	before, err := r.count(ctx)
	if err != nil {
		return burst{}, err
	}
	end := r.profile(ctx, "burst")
	b, err := r.burst(ctx, stage.Subject, r.size)
	end()
	if err != nil {
		return burst{}, err
	}
	during := "a burst of claims"
	if r.host != "" {
		during += ", on " + r.host
	}
	if b.cpu, err = r.noteUsages(during, before.usages, note); err != nil {
		return burst{}, err
	}
	if note {
		if err := r.notePeak(); err != nil {
			return burst{}, err
		}
	}
	if err := r.Quiet(ctx, time.Second); err != nil {
		return burst{}, err
	}
	after, err := r.count(ctx)
	if err != nil || !note || r.host != "" {
		return b, err // The backend's copy of another host's repository tells no commits in time.
	}
	c, n := after.since(before), float64(r.size)
	app, control := c.writes()
	r.say("  requests: %v and %v", map[string]int(c.app.Of(stage.Subject.Resource)), map[string]int(c.control.Of(stage.Subject.Resource)))
	r.add(figure.One("burst: requests to both API servers per claim", r.size, "requests", float64(c.app.All()+c.control.All())/n))
	// The services' own report is one write per claim, the person's another.
	r.add(figure.One("burst: writes in the app cluster per claim and its status", r.size, "writes", app/n-1).Judged(figure.AtMost(3, "≤ 2 for the claim, 1 for its status")))
	r.add(figure.One("burst: writes on the control plane per claim", r.size, "writes", control/n-1).Judged(figure.AtMost(1, "1")))
	r.add(figure.One("burst: commits on main per claim", r.size, "commits", float64(c.main)/n))
	r.add(figure.One("burst: commits on status per claim", r.size, "commits", float64(c.status)/n))
	return b, nil
}

// noteUsages gives what all processes have used since, and notes what each has.
func (r *run) noteUsages(during string, before map[string]stage.Usage, note bool) (all time.Duration, err error) {
	used, err := r.Usages()
	if err != nil {
		return 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		cpu := used[name].CPU - before[name].CPU
		all += cpu
		if note {
			r.report.Usages = append(r.report.Usages, figure.Usage{During: during, Size: r.size, Process: name, CPU: cpu, Peak: used[name].Peak})
		}
	}
	r.say("  CPU of %s: %s", during, all)
	return all, nil
}

// notePeak adds the highest memory since their start of what is gitbind, and of another host.
func (r *run) notePeak() error {
	peak := func(processes ...*env.Process) (float64, error) {
		var all uint64
		for _, p := range processes {
			u, err := stage.Of(p)
			if err != nil {
				return 0, err
			}
			all += u.Peak
		}
		return float64(all) / (1 << 20), nil
	}
	own, err := peak(r.measured()...)
	if err != nil {
		return err
	}
	r.add(figure.One("burst: peak memory of konnector, bridge and backend together", r.size, "MiB", own))
	if r.Gitea == nil {
		return nil
	}
	host, err := peak(r.Gitea.Process)
	if err != nil {
		return err
	}
	r.add(figure.One("burst: peak memory of the host itself", r.size, "MiB", host))
	return nil
}

// counts are what was asked and written so far.
type counts struct {
	main, status int
	app, control stage.Requests
	usages       map[string]stage.Usage
}

func (r *run) count(ctx context.Context) (counts, error) {
	var c counts
	var err error
	if c.main, c.status, err = r.Commits(ctx); err != nil {
		return c, err
	}
	if c.usages, err = r.Usages(); err != nil {
		return c, err
	}
	if c.app, err = r.Requests(ctx, env.App); err != nil {
		return c, err
	}
	c.control, err = r.Requests(ctx, env.Control)
	return c, err
}

func (c counts) since(before counts) counts {
	return counts{
		main: c.main - before.main, status: c.status - before.status,
		app: c.app.Since(before.app), control: c.control.Since(before.control),
	}
}

// writes are those to claims in both clusters.
func (c counts) writes() (app, control float64) {
	return float64(c.app.Writes().Of(stage.Subject.Resource).All()), float64(c.control.Writes().Of(stage.Subject.Resource).All())
}

// measured are the processes that are gitbind.
func (r *run) measured() []*env.Process {
	return []*env.Process{r.Konnector(env.App), r.Bridge, r.Backend}
}
