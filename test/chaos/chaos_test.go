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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		Host:  "backend", Clocks: []string{"konnector", "gitbridge", "backend"},
	}
	const length = 3 * time.Minute
	plan := func(seed uint64) []Fault { return Plan(rand.New(rand.NewPCG(seed, 0)), length, targets) }
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
	until := map[string]time.Duration{}
	for _, f := range one {
		row := rowOf(f)
		if f.At < until[row] || f.At+f.takes() > length {
			t.Errorf("%s is while another one lasts, or too late", f)
		}
		if f.Kind == Restore && (f.At < until[row]+restorePause && until[row] != 0 || f.Age < 8*time.Second || f.Process != "backend") {
			t.Errorf("%s is of another process, or before what was held by the last one went on", f)
		}
		if f.Kind == Clock && f.By.Abs() != day {
			t.Errorf("%s is not by a day", f)
		}
		until[row] = f.At + f.takes()
	}
	if len(until) != 4 {
		t.Errorf("not all rows have faults: %v", until)
	}
	// A seed that was found keeps its faults.
	targets.Host, targets.Clocks = "", nil
	old := slices.DeleteFunc(slices.Clone(one), func(f Fault) bool { return f.Kind == Restore || f.Kind == Clock })
	if diff := cmp.Diff(plan(1), old); diff != "" {
		t.Errorf("restores and clocks change the other faults:\n%s", diff)
	}
}

func rowOf(f Fault) string {
	switch {
	case f.Kind == Restore, f.Kind == Clock:
		return string(f.Kind)
	case f.Process != "":
		return "process"
	}
	return "link"
}

func TestAFaultSaysWhatItDoes(t *testing.T) {
	for want, f := range map[string]Fault{
		"  1.000s kill konnector for 2s":                            {At: time.Second, Kind: Kill, Process: "konnector", For: 2 * time.Second},
		"  1.000s cut konnector→git for 2s":                         {At: time.Second, Kind: Cut, Link: platform.Link{Client: "konnector", Server: "git"}, For: 2 * time.Second},
		"  1.000s kill konnector for 2s, 10ms after main has moved": {At: time.Second, Kind: Kill, Process: "konnector", For: 2 * time.Second, After: Pushed, Delay: 10 * time.Millisecond},
		"  1.000s restore backend for 2s, to 10s before":            {At: time.Second, Kind: Restore, Process: "backend", For: 2 * time.Second, Age: 10 * time.Second},
		"  1.000s clock konnector for 2s, 24h0m0s behind":           {At: time.Second, Kind: Clock, Process: "konnector", For: 2 * time.Second, By: -day},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Main is allowed to be another one since the Git host was restored.
func TestAReviewedClaimIsHeldForARestoreOnly(t *testing.T) {
	h := &host{}
	r := &reviewer{host: h, journal: &Journal{began: time.Now()}, isTold: map[string]bool{}}
	judge := func(uid, reason string) int {
		u := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"uid": uid},
			"status":   map[string]any{"gitbind": map[string]any{"conditions": []any{map[string]any{"type": "Held", "status": "True", "reason": reason}}}},
		}}
		r.judge(map[string]*unstructured.Unstructured{"widgets.chaos.example " + reviewedNamespace + "/one": u})
		return len(r.journal.givenUp())
	}
	if n := judge("before", "HistoryReplaced"); n != 1 {
		t.Errorf("held before a restore: %d violations", n)
	}
	h.restores.Add(1)
	if n := judge("restored", "HistoryReplaced"); n != 1 {
		t.Errorf("held by a restore: %d violations", n)
	}
	if n := judge("other", "Moved"); n != 2 {
		t.Errorf("held for another reason: %d violations", n)
	}
}

// A host that refuses for ever is a violation, and no run without an end.
func TestAPushThatIsNeverTakenIsAViolation(t *testing.T) {
	j := &Journal{began: time.Now()}
	a := &author{journal: j, dir: t.TempDir(), host: &host{}, numbers: &numbers{}}
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
	of := valueOf{"widgets.chaos.example team-c/one", "cluster.c0", "uid", 0}
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
