package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// TestChaosShort is a seed of which little is known to go wrong in a short time;
// `make chaos` has longer ones.
func TestChaosShort(t *testing.T) {
	check(t, Options{Seed: 7, For: 40 * time.Second, Crossplane: true})
}

// TestD10_SlowAgentsKilledFiftyTimesUnderLoad kills one of the konnectors or bridges
// at a random moment, fifty times.
func TestD10_SlowAgentsKilledFiftyTimesUnderLoad(t *testing.T) {
	env.Slow(t)
	check(t, Options{Seed: 10, For: time.Minute, Plan: func(rng *rand.Rand, _ time.Duration, targets Targets) []Fault {
		return Kills(rng, 50, 1100*time.Millisecond, targets.Agents)
	}})
}

// TestD14_SlowNetworkCutBetweenEachPair cuts each component off from each server that
// it uses, and then has the network between them swallow everything.
func TestD14_SlowNetworkCutBetweenEachPair(t *testing.T) {
	env.Slow(t)
	check(t, Options{Seed: 14, For: time.Minute, Plan: func(_ *rand.Rand, _ time.Duration, targets Targets) []Fault {
		return Each(targets.Links, 2*time.Second, 1200*time.Millisecond)
	}})
}

func check(t *testing.T, o Options) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real API servers: not with -short")
	}
	o.Pause, o.Settle, o.Out = 150*time.Millisecond, 4*time.Minute, t.Output()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
}

func TestPlanIsAFunctionOfTheSeed(t *testing.T) {
	targets := Targets{
		Agents: []string{"konnector", "gitbridge"}, Servers: []string{"backend", "api"}, Lease: 4 * time.Second,
		Links: []platform.Link{{Client: "konnector", Server: "git"}, {Client: "konnector", Server: "api"}},
	}
	plan := func(seed uint64) []Fault { return Plan(rand.New(rand.NewPCG(seed, 0)), time.Minute, targets) }
	one := plan(1)
	if diff := cmp.Diff(one, plan(1)); diff != "" {
		t.Errorf("the same seed gives another plan:\n%s", diff)
	}
	if cmp.Equal(one, plan(2)) {
		t.Error("another seed gives the same plan")
	}
	if !slices.IsSortedFunc(one, func(a, b Fault) int { return int(a.At - b.At) }) {
		t.Errorf("not in order: %v", one)
	}
	until := map[bool]time.Duration{}
	for _, f := range one {
		process := f.Process != ""
		if f.At < until[process] || f.At+f.takes() > time.Minute {
			t.Errorf("%s is while another one lasts, or too late", f)
		}
		until[process] = f.At + f.takes()
	}
}

// A host that refuses for ever is a violation, and no run without an end.
func TestAPushThatIsNeverTakenIsAViolation(t *testing.T) {
	j := &Journal{began: time.Now()}
	a := &author{journal: j, dir: t.TempDir(), numbers: &numbers{}}
	run, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	pushes := 0
	a.git = func(_ context.Context, args ...string) (string, error) {
		if args[0] == "push" {
			if pushes++; pushes == 3 {
				giveUp()
			}
			return "", errors.New("cannot lock ref")
		}
		return "M file", nil
	}
	c := &claim{api: widgets(), namespace: "team-b", name: "git-1", size: "one"}
	a.push(run, map[string]*change{c.key(): {claim: c, entry: Entry{Op: Create, Life: 1}}})
	given := j.givenUp()
	if len(given) != 1 || !strings.Contains(given[0].String(), "refused a push") || !strings.Contains(given[0].String(), "cannot lock ref") {
		t.Errorf("%v", given)
	}
	if all := j.all(); len(all) != 1 || all[0].Outcome != Unknown {
		t.Errorf("%+v", all)
	}
}

// TestLast is about what a field may be when some answers were lost.
func TestLast(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	e := func(second int, side Side, outcome Outcome, value string) Entry {
		return Entry{Sent: at(second), Side: side, Outcome: outcome, Value: value}
	}
	for name, c := range map[string]struct {
		writes []Entry
		want   []string
	}{
		"the last accepted one":           {[]Entry{e(0, Cluster, Accepted, "a"), e(1, Cluster, Accepted, "b")}, []string{"b"}},
		"not the other side's":            {[]Entry{e(0, Cluster, Accepted, "a"), e(1, Git, Accepted, "b")}, []string{"a"}},
		"one that may have happened":      {[]Entry{e(0, Cluster, Accepted, "a"), e(1, Cluster, Unknown, "b")}, []string{"b", "a"}},
		"one that may still have arrived": {[]Entry{e(0, Cluster, Unknown, "a"), e(1, Cluster, Accepted, "b")}, []string{"b", "a"}},
		"one that is too old for that":    {[]Entry{e(0, Cluster, Unknown, "a"), e(60, Cluster, Accepted, "b")}, []string{"b"}},
		"not a refused one":               {[]Entry{e(0, Cluster, Accepted, "a"), e(1, Cluster, Refused, "b")}, []string{"a"}},
	} {
		if diff := cmp.Diff(c.want, last(c.writes, Cluster)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSetBack is about objects that say again what they said before.
func TestSetBack(t *testing.T) {
	of := valueOf{"widgets.chaos.example team-c/one", "cluster.c0", "uid"}
	edit := func(value string, outcome Outcome) Entry {
		return Entry{Side: Cluster, Op: Edit, Claim: of.claim, Field: of.field, Value: value, Outcome: outcome}
	}
	for name, c := range map[string]struct {
		entries []Entry
		said    []string
		want    int
	}{
		"what people gave it":           {[]Entry{edit("a", Accepted), edit("b", Unknown), edit("", Accepted)}, []string{"", "a", "b", ""}, 0},
		"what it said when it was made": {nil, []string{"a"}, 0},
		"set back and forth":            {[]Entry{edit("a", Accepted), edit("b", Accepted)}, []string{"", "a", "b", "a", "b"}, 2},
		"taken back by a person":        {[]Entry{edit("a", Accepted), edit("b", Accepted), edit("a", Accepted)}, []string{"", "a", "b", "a"}, 0},
		"what was refused":              {[]Entry{edit("a", Refused)}, []string{"", "a"}, 1},
	} {
		j := &Journal{}
		for _, e := range c.entries {
			j.write(e)
		}
		check := &checker{journal: j, counts: Counts{}}
		if check.setBack(map[valueOf][]string{of: c.said}); len(check.found) != c.want {
			t.Errorf("%s: %v", name, check.found)
		}
	}
}
