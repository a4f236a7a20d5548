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
	// Restore is of the Git host, to a state some seconds before.
	Restore Kind = "restore"
	// Clock is of a component, whose clock is wrong.
	Clock Kind = "clock"
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
	// Age is how old the state is that a host is restored to: the fault begins with the
	// backup of it.
	Age time.Duration
	// By is how far a clock is ahead.
	By time.Duration
}

func (f Fault) String() string { return fmt.Sprintf("%7.3fs %s", f.At.Seconds(), f.what()) }

func (f Fault) what() string {
	of := f.Process
	if of == "" {
		of = f.Link.String()
	}
	said := fmt.Sprintf("%s %s for %s", f.Kind, of, f.For.Round(time.Millisecond))
	switch {
	case f.After != "":
		said += fmt.Sprintf(", %s after %s", f.Delay.Round(time.Millisecond), f.After)
	case f.Age != 0:
		said += fmt.Sprintf(", to %s before", f.Age.Round(time.Millisecond))
	case f.By > 0:
		said += fmt.Sprintf(", %s ahead", f.By)
	case f.By < 0:
		said += fmt.Sprintf(", %s behind", -f.By)
	}
	return said
}

// takes is how long the fault lasts at most, with what it waits for.
func (f Fault) takes() time.Duration {
	if f.After == "" {
		return f.Age + f.For
	}
	return stepAtMost + f.Delay + f.For
}

// Targets are what faults can happen to.
type Targets struct {
	// Agents may be stopped for longer than their Lease lasts, Servers are
	// processes that are missed at once.
	Agents, Servers []string
	Links           []platform.Link
	// Host is the Git host that is restored, "" for none, and Clocks are the components
	// whose clocks can be wrong.
	Host   string
	Clocks []string
	// Lease is how long an agent's Lease lasts.
	Lease time.Duration
}

// Plan is a schedule of faults, a function of its arguments. Processes, links,
// restores and clocks have their own row of faults each, so that one of each can
// go on at a time, and never two of one row. A later row changes nothing in those
// before it.
func Plan(rng *rand.Rand, length time.Duration, t Targets) []Fault {
	var plan []Fault
	row := func(from, to time.Duration, next func() Fault) {
		for at := time.Second; ; {
			f := next()
			f.At = at
			if f.At+f.takes() > length {
				return
			}
			plan = append(plan, f)
			at += f.takes() + span(rng, from, to)
		}
	}
	if len(t.Agents)+len(t.Servers) > 0 {
		row(minPause, maxPause, func() Fault { return processFault(rng, t) })
	}
	if len(t.Links) > 0 {
		row(minPause, maxPause, func() Fault {
			kind := []Kind{Cut, Silent, Slow}[rng.IntN(3)]
			return Fault{Kind: kind, Link: t.Links[rng.IntN(len(t.Links))], For: span(rng, 200*time.Millisecond, 6*time.Second)}
		})
	}
	if t.Host != "" {
		row(restorePause, 2*restorePause, func() Fault {
			return Fault{Kind: Restore, Process: t.Host, Age: span(rng, 8*time.Second, 12*time.Second), For: span(rng, 3*time.Second, 12*time.Second)}
		})
	}
	if len(t.Clocks) > 0 {
		row(minPause, maxPause, func() Fault {
			by := []time.Duration{day, -day}[rng.IntN(2)]
			return Fault{Kind: Clock, Process: t.Clocks[rng.IntN(len(t.Clocks))], By: by, For: span(rng, time.Second, 12*time.Second)}
		})
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// Between two faults of a row is a pause.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2500 * time.Millisecond
)

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
