package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/proxy"
)

// Kind is what a fault does.
type Kind string

// The kinds of faults. Of a process: Kill is SIGKILL, Stop is SIGSTOP and
// SIGCONT after a while. Of a link: see the modes of package proxy.
const (
	Kill   Kind = "kill"
	Stop   Kind = "stop"
	Cut    Kind = Kind(proxy.Cut)
	Silent Kind = Kind(proxy.Silent)
	Slow   Kind = Kind(proxy.Slow)
)

// A Fault is one thing that goes wrong for a while.
type Fault struct {
	// At is from the begin of the load, For how long it lasts: a process that
	// was killed is started again after it.
	At, For time.Duration
	Kind    Kind
	// Process is a process' name, or Link what lies between two.
	Process string
	Link    platform.Link
	// After is a step that the fault waits for, and Delay how long it comes after
	// the step: less than the next one takes.
	After Step
	Delay time.Duration
}

func (f Fault) String() string {
	what := f.Process
	if what == "" {
		what = f.Link.String()
	}
	return fmt.Sprintf("%7.3fs %s %s for %s%s", f.At.Seconds(), f.Kind, what, f.For.Round(time.Millisecond), f.when())
}

func (f Fault) when() string {
	if f.After == "" {
		return ""
	}
	return fmt.Sprintf(", %s after %s", f.Delay.Round(time.Millisecond), f.After)
}

// takes is how long the fault lasts at most, with what it waits for.
func (f Fault) takes() time.Duration {
	if f.After == "" {
		return f.For
	}
	return stepAtMost + f.Delay + f.For
}

// Targets are what faults can happen to.
type Targets struct {
	// Agents may be stopped for longer than their Lease lasts, Servers are
	// processes that are missed at once.
	Agents, Servers []string
	Links           []platform.Link
	// Lease is how long an agent's Lease lasts.
	Lease time.Duration
}

// Plan is a schedule of faults, a function of its arguments. Processes and
// links have their own row of faults each, so that one of both can go on at a
// time, and never two with one process.
func Plan(rng *rand.Rand, length time.Duration, t Targets) []Fault {
	var plan []Fault
	row := func(next func() Fault) {
		for at := time.Second; ; {
			f := next()
			f.At = at
			if f.At+f.takes() > length {
				return
			}
			plan = append(plan, f)
			at += f.takes() + span(rng, 100*time.Millisecond, 2500*time.Millisecond)
		}
	}
	if len(t.Agents)+len(t.Servers) > 0 {
		row(func() Fault { return processFault(rng, t) })
	}
	if len(t.Links) > 0 {
		row(func() Fault {
			kind := []Kind{Cut, Silent, Slow}[rng.IntN(3)]
			return Fault{Kind: kind, Link: t.Links[rng.IntN(len(t.Links))], For: span(rng, 200*time.Millisecond, 6*time.Second)}
		})
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

func processFault(rng *rand.Rand, t Targets) Fault {
	if len(t.Agents) == 0 || len(t.Servers) > 0 && rng.IntN(5) < 2 {
		server := t.Servers[rng.IntN(len(t.Servers))]
		if rng.IntN(3) == 0 {
			return Fault{Kind: Stop, Process: server, For: span(rng, 300*time.Millisecond, 5*time.Second)}
		}
		return Fault{Kind: Kill, Process: server, For: span(rng, 0, 3*time.Second)}
	}
	agent := t.Agents[rng.IntN(len(t.Agents))]
	switch rng.IntN(9) {
	case 0, 1, 2:
		f := Fault{Kind: Kill, Process: agent, After: allSteps[rng.IntN(len(allSteps))]}
		f.Delay, f.For = span(rng, 0, 40*time.Millisecond), span(rng, 0, 1500*time.Millisecond)
		return f
	case 3, 4:
		return Fault{Kind: Stop, Process: agent, For: span(rng, 300*time.Millisecond, t.Lease+3*time.Second)}
	default:
		return Fault{Kind: Kill, Process: agent, For: span(rng, 0, 1500*time.Millisecond)}
	}
}

// Kills is a plan that kills one agent after the other, n times.
func Kills(rng *rand.Rand, n int, every time.Duration, agents []string) []Fault {
	var plan []Fault
	at := time.Second
	for range n {
		plan = append(plan, Fault{At: at, Kind: Kill, Process: agents[rng.IntN(len(agents))]})
		at += span(rng, every/4, every+every*3/4)
	}
	return plan
}

// Each is a plan that makes each link bad in each way, one after the other.
func Each(links []platform.Link, length, between time.Duration) []Fault {
	var plan []Fault
	at := time.Second
	for _, link := range links {
		for _, kind := range []Kind{Cut, Silent} {
			plan = append(plan, Fault{At: at, Kind: kind, Link: link, For: length})
			at += length + between
		}
	}
	return plan
}

func span(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}
