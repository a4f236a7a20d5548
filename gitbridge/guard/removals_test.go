package guard

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
)

const (
	api   = "postgresqlinstances.anynines.com"
	other = "backups.anynines.com"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func keyOf(i int) contract.Key {
	return contract.Key{Binding: api, Namespace: "team-a", Name: fmt.Sprint("c", i)}
}

func pathsOf(of ...int) []string {
	var out []string
	for _, i := range of {
		out = append(out, keyOf(i).Path())
	}
	return out
}

func keysOf(of ...int) []contract.Key {
	var out []contract.Key
	for _, i := range of {
		out = append(out, keyOf(i))
	}
	return out
}

func ago(d time.Duration, of ...int) []breaker.Removal {
	var out []breaker.Removal
	for _, path := range pathsOf(of...) {
		out = append(out, breaker.Removal{Path: path, At: now.Add(-d)})
	}
	return out
}

func claims(n int) func(string) int { return func(string) int { return n } }

func removals(n int, passed ...breaker.Removal) Removals {
	return Removals{Limits: breaker.Default(), Passed: passed, Head: "h", Claims: claims(n), Now: now}
}

func TestAWaitingRemovalIsJudgedWithAllThatCameWithIt(t *testing.T) {
	file := func(i int) Waiting { return Waiting{Key: keyOf(i), FileGone: true, Since: now} }
	object := func(i int) Waiting { return Waiting{Key: keyOf(i), Since: now} }
	held := func(w Waiting) Waiting { w.Held = true; return w }
	since := func(w Waiting, d time.Duration) Waiting { w.Since = now.Add(-d); return w }
	for _, tc := range []struct {
		name     string
		claims   int
		passed   []breaker.Removal
		all      []Waiting // the first one is asked about
		approved []int
		want     Verdict
	}{
		{name: "one file", claims: 9, all: []Waiting{file(0)}, want: Verdict{Passing: ago(0, 0)}},
		{name: "three files", claims: 9, all: []Waiting{file(0), file(1), file(2)}, want: Verdict{Passing: ago(0, 0, 1, 2)}},
		{name: "four files", claims: 9, all: []Waiting{file(0), file(1), file(2), file(3)}, want: Verdict{Reason: contract.ManyRemovals, Together: 4, Holding: keysOf(0, 1, 2, 3)}},
		{name: "four objects", claims: 13, all: []Waiting{object(0), object(1), object(2), object(3)}, want: Verdict{Reason: contract.ManyRemovals, Together: 4, Holding: keysOf(0, 1, 2, 3)}},
		{name: "two files and two objects", claims: 9, all: []Waiting{file(0), object(1), file(2), object(3)}, want: Verdict{Passing: ago(0, 0, 2)}},
		{name: "two files of five", claims: 3, all: []Waiting{file(0), file(1)}, want: Verdict{Passing: ago(0, 0, 1)}},
		{name: "two files of four", claims: 2, all: []Waiting{file(0), file(1)}, want: Verdict{Reason: contract.ManyRemovals, Together: 2, Holding: keysOf(0, 1)}},
		{name: "two objects, whose files are still there, of five", claims: 5, all: []Waiting{object(0), object(1)}, want: Verdict{Passing: ago(0, 0, 1)}},
		{name: "two objects of four", claims: 4, all: []Waiting{object(0), object(1)}, want: Verdict{Reason: contract.ManyRemovals, Together: 2, Holding: keysOf(0, 1)}},
		{name: "after three that passed", claims: 9, passed: ago(time.Minute, 7, 8, 9), all: []Waiting{file(0)}, want: Verdict{Reason: contract.ManyRemovals, Together: 1, Holding: keysOf(0)}},
		{name: "after three that passed long ago", claims: 9, passed: ago(10*time.Minute, 7, 8, 9), all: []Waiting{file(0)}, want: Verdict{Passing: ago(0, 0)}},
		{name: "beside others of long ago", claims: 9, all: []Waiting{file(0), since(file(1), 10*time.Minute), since(file(2), 10*time.Minute), since(file(3), 10*time.Minute)}, want: Verdict{Passing: ago(0, 0)}},
		{name: "beside others within the window", claims: 9, all: []Waiting{file(0), since(file(1), 10*time.Minute-1), since(file(2), time.Minute), since(file(3), time.Minute)}, want: Verdict{Reason: contract.ManyRemovals, Together: 4, Holding: keysOf(0, 1, 2, 3)}},
		{name: "itself of long ago", claims: 9, all: []Waiting{since(file(0), time.Hour)}, want: Verdict{Passing: ago(0, 0)}},
		{name: "held before, alone by now", claims: 9, all: []Waiting{held(since(file(0), time.Hour))}, want: Verdict{Reason: contract.ManyRemovals, Together: 1}},
		{name: "beside others that are held: too many", claims: 9, all: []Waiting{file(0), held(file(1)), held(file(2)), held(file(3))}, want: Verdict{Reason: contract.ManyRemovals, Together: 4, Holding: keysOf(0)}},
		{name: "beside others that are held: few", claims: 9, all: []Waiting{file(0), file(1), held(file(2))}, want: Verdict{Passing: ago(0, 0, 1)}},
		{name: "approved", claims: 9, all: []Waiting{held(file(0)), held(file(1)), held(file(2)), held(file(3))}, approved: []int{0, 1, 2, 3}, want: Verdict{Approved: true}},
		{name: "beside others that are approved", claims: 9, all: []Waiting{file(0), file(1), file(2), file(3)}, approved: []int{1, 2}, want: Verdict{Passing: ago(0, 0, 3)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Commit = "h"
			got, err := removals(tc.claims, tc.passed...).JudgeWaiting(tc.all[0], slices.Values(tc.all), func(w Waiting) (bool, error) {
				return slices.ContainsFunc(tc.approved, func(i int) bool { return keyOf(i) == w.Key }), nil
			})
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got): %s", err, diff)
			}
		})
	}
}

func TestEachBindingOfWhatWaitsHadItsOwnClaims(t *testing.T) {
	all := []Waiting{{Key: keyOf(0), FileGone: true, Since: now}, {Key: contract.Key{Binding: other, Namespace: "team-a", Name: "x"}, FileGone: true, Since: now}}
	no := func(Waiting) (bool, error) { return false, nil }
	if got, err := removals(1).JudgeWaiting(all[0], slices.Values(all), no); got.IsHeld() || err != nil {
		t.Errorf("one of each: %+v %v", got, err)
	}
}

func TestWhatIsNotKnownOfAnApprovalIsAnError(t *testing.T) {
	unknown := errors.New("no answer")
	for _, of := range []int{0, 1} {
		all := []Waiting{{Key: keyOf(0), Since: now}, {Key: keyOf(1), Since: now}}
		got, err := removals(9).JudgeWaiting(all[0], slices.Values(all), func(w Waiting) (bool, error) {
			if w.Key == keyOf(of) {
				return true, unknown
			}
			return false, nil
		})
		if !errors.Is(err, unknown) || len(got.Passing) > 0 {
			t.Errorf("%d: %+v %v", of, got, err)
		}
	}
}

func TestWhatPassedNeedNotPassAgain(t *testing.T) {
	r := removals(9, slices.Concat(ago(10*time.Minute, 0), ago(10*time.Minute-1, 1))...)
	for i, want := range []bool{false, true, false} {
		if got := r.HasPassed(keyOf(i).Path()); got != want {
			t.Errorf("%d has passed: %v", i, got)
		}
	}
}

// removal is a commit that removes claims; "!" is one that was approved.
func removal(konnector bool, at time.Duration, of ...int) Commit {
	message := "claim: remove\n\n"
	for _, i := range of {
		key := keyOf(max(i, -i))
		message += contract.TrailerObject + ": " + contract.ObjectTrailer{Key: key, UID: "u", Generation: 1}.String() + "\n"
		if i < 0 {
			message += contract.TrailerApproved + ": " + key.Path() + "\n"
		}
	}
	return Commit{Konnector: konnector, Time: now.AddDate(-6, 0, 0).Add(at), Message: message}
}

func TestPushesAreJudgedOneAfterTheOther(t *testing.T) {
	type all map[int]Verdict
	many := func(n int) Verdict { return Verdict{Reason: contract.ManyRemovals, Together: n} }
	pass := func(i int, d time.Duration) Verdict { return Verdict{Passing: ago(d, i)} }
	deleted := func(v Verdict) Verdict { v.ByKonnector = true; return v }
	for _, tc := range []struct {
		name      string
		claims    int
		passed    []breaker.Removal
		removed   []int
		uncounted []int
		commits   []Commit
		want      all
	}{
		{name: "one", claims: 9, removed: []int{1}, want: all{1: pass(1, 0)}},
		{name: "four at once", claims: 9, removed: []int{1, 2, 3, 4}, want: all{1: many(4), 2: many(4), 3: many(4), 4: many(4)}},
		{name: "two of five", claims: 3, removed: []int{1, 2}, want: all{1: pass(1, 0), 2: pass(2, 0)}},
		{name: "two of four", claims: 2, removed: []int{1, 2}, want: all{1: many(2), 2: many(2)}},
		{name: "four, of which two do not count", claims: 9, removed: []int{1, 2, 3, 4}, uncounted: []int{2, 4}, want: all{1: pass(1, 0), 2: {}, 3: pass(3, 0), 4: {}}},
		{name: "after three that passed", claims: 9, passed: ago(time.Minute, 6, 7, 8), removed: []int{1}, want: all{1: many(1)}},
		{
			name: "people's commits are one push", claims: 9, removed: []int{1, 2, 3, 4},
			commits: []Commit{removal(false, time.Hour, 3, 4), removal(false, 0, 1, 2)},
			want:    all{1: many(4), 2: many(4), 3: many(4), 4: many(4)},
		},
		{
			name: "the konnector's count each, at their own times", claims: 9, removed: []int{1, 2, 3, 4, 5},
			commits: []Commit{removal(true, time.Hour, 5), removal(true, 30*time.Minute, 3, 4), removal(true, 0, 1, 2)},
			want:    all{1: deleted(pass(1, time.Hour)), 2: deleted(pass(2, time.Hour)), 3: deleted(pass(3, 30*time.Minute)), 4: deleted(pass(4, 30*time.Minute)), 5: deleted(pass(5, 0))},
		},
		{
			name: "the konnector's within a window count together", claims: 20, removed: []int{1, 2, 3, 4},
			commits: []Commit{removal(true, 3*time.Minute, 4), removal(true, 2*time.Minute, 3), removal(true, time.Minute, 2), removal(true, 0, 1)},
			want:    all{1: deleted(pass(1, 3*time.Minute)), 2: deleted(pass(2, 2*time.Minute)), 3: deleted(pass(3, time.Minute)), 4: deleted(many(1))},
		},
		{
			name: "a push that is held leaves room for the next", claims: 20, removed: []int{1, 2, 3, 4, 5},
			commits: []Commit{removal(true, time.Minute, 5), removal(true, 0, 1, 2, 3, 4)},
			want:    all{1: deleted(many(4)), 2: deleted(many(4)), 3: deleted(many(4)), 4: deleted(many(4)), 5: deleted(pass(5, 0))},
		},
		{
			// It had three, then two, of which two at once are too many.
			name: "what passed before is gone for the next", claims: 0, removed: []int{1, 2, 3},
			commits: []Commit{removal(true, time.Hour, 2, 3), removal(true, 0, 1)},
			want:    all{1: deleted(pass(1, time.Hour)), 2: deleted(many(2)), 3: deleted(many(2))},
		},
		{
			// Had the first one not gone, these would be two of five.
			name: "two of what is left", claims: 2, removed: []int{1, 2, 3},
			commits: []Commit{removal(true, time.Hour, 2, 3), removal(true, 0, 1)},
			want:    all{1: deleted(pass(1, time.Hour)), 2: deleted(many(2)), 3: deleted(many(2))},
		},
		{
			name: "people's removals beside one of the konnector's", claims: 20, removed: []int{1, 2, 3, 4},
			commits: []Commit{removal(true, time.Hour, 1)},
			want:    all{1: deleted(pass(1, 0)), 2: many(3), 3: many(3), 4: many(3)},
		},
		{
			name: "the newest removal of a claim counts", claims: 9, removed: []int{1},
			commits: []Commit{removal(true, time.Hour, 2), removal(true, 30*time.Minute, 1), removal(true, 0, 1)},
			want:    all{1: deleted(pass(1, 30*time.Minute))},
		},
		{
			name: "a removal of a life before is none", claims: 9, removed: []int{1},
			commits: []Commit{order(true, time.Hour, 3, 1), removal(true, 0, -1)},
			want:    all{1: pass(1, 0)},
		},
		{
			name: "an approval in a commit of the konnector", claims: 9, removed: []int{1, 2, 3, 4, 5},
			commits: []Commit{removal(true, 0, -1, -2, -3, -4, 5)},
			want: all{
				1: deleted(Verdict{Approved: true}), 2: deleted(Verdict{Approved: true}), 3: deleted(Verdict{Approved: true}), 4: deleted(Verdict{Approved: true}),
				5: deleted(pass(5, 0)),
			},
		},
		{
			name: "an approval in anybody else's", claims: 9, removed: []int{1, 2, 3, 4},
			commits: []Commit{removal(false, 0, -1, -2, -3, -4)},
			want:    all{1: many(4), 2: many(4), 3: many(4), 4: many(4)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := map[string]Verdict{}
			for i, v := range tc.want {
				v.Commit = "h"
				want[keyOf(i).Path()] = v
			}
			counts := func(path string) bool { return !slices.Contains(pathsOf(tc.uncounted...), path) }
			got := removals(tc.claims, tc.passed...).JudgePushes(pathsOf(tc.removed...), counts, tc.commits, RemovedBy(tc.commits, nil))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each push is one with what it removes in all bindings, and a binding is asked for its
// own claims.
func TestPushesInTwoBindings(t *testing.T) {
	x := contract.Key{Binding: other, Namespace: "team-a", Name: "x"}.Path()
	y := contract.Key{Binding: other, Namespace: "team-a", Name: "y"}.Path()
	r := removals(0)
	r.Claims = func(binding string) int { return map[string]int{api: 8, other: 3}[binding] }
	all := func(string) bool { return true }
	for path, v := range r.JudgePushes([]string{keyOf(1).Path(), x, y}, all, nil, nil) {
		if v.IsHeld() {
			t.Errorf("%s: %+v", path, v)
		}
	}
	r.Claims = func(binding string) int { return map[string]int{api: 8, other: 2}[binding] }
	for path, v := range r.JudgePushes([]string{keyOf(1).Path(), x, y}, all, nil, nil) {
		if !v.IsHeld() || v.Together != 3 {
			t.Errorf("%s: %+v", path, v)
		}
	}
	// Of pushes of one time, the order of their paths decides.
	for range 20 {
		commits := []Commit{removal(true, 0, 4), removal(true, 0, 3)}
		got := removals(9, ago(time.Minute, 8, 9)...).JudgePushes(pathsOf(4, 3), all, commits, RemovedBy(commits, nil))
		if !got[keyOf(4).Path()].IsHeld() || got[keyOf(3).Path()].IsHeld() {
			t.Fatalf("%+v", got)
		}
	}
	if got := removals(9).JudgePushes([]string{"bindings/x"}, all, nil, nil); got["bindings/x"].IsHeld() {
		t.Errorf("%+v", got)
	}
}

func TestVerdictsOfOneKindSayWhatTheyAre(t *testing.T) {
	for _, tc := range []struct{ got, want Verdict }{
		{NotRemoved("h"), Verdict{Reason: contract.NotRemoved, Commit: "h"}},
		{Moved("h", "to"), Verdict{Reason: contract.Moved, Commit: "h", MovedTo: "to"}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" || !tc.got.IsHeld() {
			t.Error(diff)
		}
	}
}
