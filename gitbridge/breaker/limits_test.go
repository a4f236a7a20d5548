package breaker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func path(binding string, i int) string {
	return contract.Key{Binding: binding + ".example.org", Namespace: "team-a", Name: fmt.Sprint("c", i)}.Path()
}

func paths(binding string, from, n int) []string {
	var out []string
	for i := range n {
		out = append(out, path(binding, from+i))
	}
	return out
}

// ago are removals that passed some time before now.
func ago(d time.Duration, paths ...string) []Removal {
	var out []Removal
	for _, p := range paths {
		out = append(out, Removal{p, now.Add(-d)})
	}
	return out
}

func TestAllows(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits Limits
		passed []Removal
		more   []string
		had    int
		want   bool
	}{
		{name: "one of many", more: paths("a", 0, 1), had: 100, want: true},
		{name: "the only one", more: paths("a", 0, 1), had: 1, want: true},
		{name: "three of many", more: paths("a", 0, 3), had: 100, want: true},
		{name: "four of many", more: paths("a", 0, 4), had: 100},
		{name: "a thousand", more: paths("a", 0, 1000), had: 100000},
		{name: "three one after another", passed: ago(time.Minute, paths("a", 0, 2)...), more: paths("a", 2, 1), had: 98, want: true},
		{name: "the fourth one", passed: ago(time.Minute, paths("a", 0, 3)...), more: paths("a", 3, 1), had: 97},
		{name: "four in all", passed: ago(time.Minute, paths("a", 0, 2)...), more: paths("a", 2, 2), had: 98},
		{name: "just within the window", passed: ago(10*time.Minute-time.Nanosecond, paths("a", 0, 3)...), more: paths("a", 3, 1), had: 97},
		{name: "just out of the window", passed: ago(10*time.Minute, paths("a", 0, 3)...), more: paths("a", 3, 1), had: 97, want: true},
		{name: "clock set back", passed: ago(-time.Hour, paths("a", 0, 3)...), more: paths("a", 3, 1), had: 97},
		{name: "two of five", more: paths("a", 0, 2), had: 5, want: true},
		{name: "two of four", more: paths("a", 0, 2), had: 4},
		{name: "two of two", more: paths("a", 0, 2), had: 2},
		{name: "three of six", more: paths("a", 0, 3), had: 6},
		{name: "three of seven", more: paths("a", 0, 3), had: 7, want: true},
		{name: "the second of five", passed: ago(time.Minute, path("a", 0)), more: paths("a", 1, 1), had: 4, want: true},
		{name: "the second of four", passed: ago(time.Minute, path("a", 0)), more: paths("a", 1, 1), had: 3},
		{name: "the second of two", passed: ago(time.Minute, path("a", 0)), more: paths("a", 1, 1), had: 1},
		{name: "one more, of another binding", passed: ago(time.Minute, path("a", 0)), more: paths("b", 0, 1), had: 1, want: true},
		{name: "four in two bindings", passed: ago(time.Minute, paths("a", 0, 3)...), more: paths("b", 0, 1), had: 100},
		{name: "asked again", passed: ago(time.Minute, paths("a", 0, 3)...), more: paths("a", 1, 1), had: 97, want: true},
		{name: "asked again, where it was approved as one of many", passed: ago(time.Minute, paths("a", 0, 9)...), more: paths("a", 1, 2), had: 1, want: true},
		{name: "came back and is removed again", passed: ago(time.Minute, path("a", 0)), more: paths("a", 0, 1), had: 2, want: true},
		{name: "came back beside three others", passed: ago(time.Minute, paths("a", 0, 4)...), more: []string{path("a", 0), path("a", 7)}, had: 100},
		{name: "the same one twice", more: slices.Concat(paths("a", 0, 3), paths("a", 0, 3)), had: 100, want: true},
		{name: "nothing", more: nil, had: 3, want: true},
		{name: "paths of no claim", more: []string{"bindings/a.example.org/claims/x", "bindings/a.example.org/claims/y"}, had: 3},
		{name: "none without approval", limits: Limits{Window: time.Minute}, more: paths("a", 0, 1), had: 100},
		{name: "no limit by share", limits: Limits{Most: 5, Window: time.Minute}, more: paths("a", 0, 5), had: 5, want: true},
		{name: "a wider setting", limits: Limits{Most: 50, Window: time.Hour, Share: .5, AtLeast: 2}, passed: ago(30*time.Minute, paths("a", 0, 40)...), more: paths("a", 40, 11), had: 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := tc.limits
			if l == (Limits{}) {
				l = Default()
			}
			if got := l.Allows(tc.passed, tc.more, func(string) int { return tc.had }, now); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestAllowsInSeveralBindings(t *testing.T) {
	had := func(counts map[string]int) func(string) int {
		return func(b string) int { return counts[b] }
	}
	for _, tc := range []struct {
		name   string
		passed []Removal
		more   []string
		had    map[string]int
		want   bool
	}{
		{"one in each of three", nil, []string{path("a", 0), path("b", 0), path("c", 0)}, map[string]int{"a.example.org": 9, "b.example.org": 9, "c.example.org": 9}, true},
		{"two in each of two", nil, slices.Concat(paths("a", 0, 2), paths("b", 0, 2)), map[string]int{"a.example.org": 9, "b.example.org": 9}, false},
		{"half of the smaller one", nil, slices.Concat(paths("a", 0, 1), paths("b", 0, 2)), map[string]int{"a.example.org": 9, "b.example.org": 3}, false},
		{"one that passed before is not judged again", ago(time.Minute, paths("b", 0, 2)...), []string{path("b", 0), path("a", 0)}, map[string]int{"a.example.org": 9, "b.example.org": 1}, true},
		{"paths of no claim count for the binding that they are in", nil, []string{"bindings/a.example.org/claims/x", "bindings/b.example.org/claims/y"}, map[string]int{"a.example.org": 9, "b.example.org": 9}, true},
		{"a binding that is not touched any more does not count", ago(time.Minute, paths("b", 0, 2)...), paths("a", 0, 1), map[string]int{"a.example.org": 9}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Default().Allows(tc.passed, tc.more, had(tc.had), now); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestRecent(t *testing.T) {
	l := Default()
	in := slices.Concat(
		ago(time.Minute, path("a", 1)), ago(2*time.Minute, path("a", 0)), ago(5*time.Minute, path("a", 1)),
		ago(10*time.Minute, path("a", 2)), ago(-time.Hour, path("a", 3)),
	)
	want := slices.Concat(ago(2*time.Minute, path("a", 0)), ago(time.Minute, path("a", 1)), ago(0, path("a", 3)))
	if diff := cmp.Diff(want, l.Recent(in, now)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(paths("a", 6, 4), pathsOf(l.Recent(ago(time.Minute, paths("a", 0, 10)...), now))); diff != "" {
		t.Errorf("not the newest four of many: %s", diff)
	}
	again := slices.Concat(ago(5*time.Minute, path("a", 1)), ago(time.Minute, path("a", 1)))
	if diff := cmp.Diff(again[1:], l.Recent(again, now)); diff != "" {
		t.Errorf("not the newest of one claim: %s", diff)
	}
	if got := l.Recent(nil, now); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func pathsOf(rs []Removal) []string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Path)
	}
	return out
}

// Claims come and go, by twos and tens, at any pace, with restarts that keep what
// Recent keeps: within no window do more claims go than the limits say.
func TestNoWindowHasTooMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{
			Most:    rapid.IntRange(0, 6).Draw(t, "most"),
			Window:  time.Duration(rapid.IntRange(1, 20).Draw(t, "window")) * time.Minute,
			Share:   rapid.SampledFrom([]float64{0, .25, .5, 1}).Draw(t, "share"),
			AtLeast: rapid.IntRange(1, 3).Draw(t, "at least"),
		}
		present := map[string]bool{}
		for _, b := range []string{"a", "b"} {
			for _, p := range paths(b, 0, rapid.IntRange(1, 12).Draw(t, "claims of "+b)) {
				present[p] = true
			}
		}
		count := func(binding string) int {
			n := 0
			for p := range present {
				if bindingOf(p) == binding {
					n++
				}
			}
			return n
		}
		at := now
		var kept, all []Removal
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
			there := slices.Sorted(func(yield func(string) bool) {
				for p := range present {
					if !yield(p) {
						return
					}
				}
			})
			if len(there) == 0 || rapid.Bool().Draw(t, "comes back") {
				present[path("a", rapid.IntRange(0, 12).Draw(t, "which"))] = true
				continue
			}
			more := rapid.SliceOfNDistinct(rapid.SampledFrom(there), 1, min(len(there), 5), rapid.ID).Draw(t, "more")
			allowed := l.Allows(kept, more, count, at)
			if allowed != l.Allows(kept, reversed(more), count, at) {
				t.Fatal("it depends on the order")
			}
			if !allowed {
				continue
			}
			for i := range more {
				if !l.Allows(kept, slices.Delete(slices.Clone(more), i, i+1), count, at) {
					t.Fatal("fewer are not allowed")
				}
			}
			for _, p := range more {
				delete(present, p)
				kept, all = append(kept, Removal{p, at}), append(all, Removal{p, at})
			}
			if kept = l.Recent(kept, at); len(kept) > l.Most {
				t.Fatalf("%d are kept, of %d at most", len(kept), l.Most)
			}
			if !l.Allows(kept, more, count, at) {
				t.Fatal("what has passed is not allowed when asked again")
			}
			distinct := map[string]bool{}
			for _, r := range all {
				if at.Sub(r.At) < l.Window {
					distinct[r.Path] = true
				}
			}
			if len(distinct) > l.Most {
				t.Fatalf("%d within %s", len(distinct), l.Window)
			}
		}
	})
}

func reversed(s []string) []string {
	out := slices.Clone(s)
	slices.Reverse(out)
	return out
}
