package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// world is a ledger with objects that are there from the beginning, by name, with their
// plans.
type world struct {
	*testing.T
	*Ledgers
	quota  *v1alpha1.Quota
	there  map[string]string
	loads  int
	called []string
	// changed is how often another usage was told of.
	changed int
}

// used is what is counted.
func (w *world) used() use {
	u := w.of(key("a").Binding).Usage(w.quota)
	return use{u.Claims, u.Weight}
}

type use struct{ claims, weight int64 }

func newWorld(t *testing.T, q *v1alpha1.Quota) *world {
	w := &world{T: t, quota: q, there: map[string]string{}}
	w.Ledgers = &Ledgers{
		Called: func(key contract.Key) {
			w.called = append(w.called, strings.TrimPrefix(key.Namespace+"/"+key.Name, "team-a/"))
		},
		Changed: func(string) { w.changed++ },
	}
	return w
}

func limit(claims, weight int64) *v1alpha1.QuotaLimit {
	l := &v1alpha1.QuotaLimit{Claims: &claims}
	if weight > 0 {
		l.Weight = &weight
	}
	return l
}

var plans = &v1alpha1.QuotaWeights{Field: "spec.plan", Values: map[string]int64{"small": 1, "big": 4, "free": 0}}

// key is a claim of namespace team-a, or of the namespace before the slash.
func key(name string) contract.Key {
	namespace, rest, ok := strings.Cut(name, "/")
	if !ok {
		namespace, rest = "team-a", name
	}
	return contract.Key{Binding: "caches.example.org", Namespace: namespace, Name: rest}
}

func object(plan string) map[string]any {
	return map[string]any{"spec": map[string]any{"plan": plan}}
}

func (w *world) take(name, plan string) (why string) {
	w.Helper()
	why, err := w.Take(w.Context(), key(name), w.quota, object(plan), false, func(_ context.Context, each func(contract.Key, map[string]any)) error {
		w.loads++
		for name, plan := range w.there {
			each(key(name), object(plan))
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return why
}

// apply takes, and does what was let in.
func (w *world) apply(name, plan string) {
	w.Helper()
	if why := w.take(name, plan); why != "" {
		w.Fatalf("%s: %s", name, why)
	}
	w.Applied(key(name), w.quota, object(plan))
	w.Settle(key(name), w.quota, true, false)
}

func (w *world) refused(name, plan, words string) {
	w.Helper()
	why := w.take(name, plan)
	if why == "" || !strings.Contains(why, words) {
		w.Errorf("%s is refused by %q, want %q", name, why, words)
	}
	_, exists := w.of(key(name).Binding).Weight(key(name))
	w.Settle(key(name), w.quota, exists, true)
}

func (w *world) wantCalled(want ...string) {
	w.Helper()
	if !slices.Equal(w.called, want) {
		w.Errorf("called %q, want %q", w.called, want)
	}
	w.called = nil
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("by number", func(t *testing.T) {
		w := newWorld(t, &v1alpha1.Quota{Namespace: limit(2, 0), Cluster: limit(3, 0)})
		w.there["a"] = "small"
		w.apply("b", "small")
		w.refused("c", "small", "namespace team-a has 2 claims of this API, and may have 2")
		w.apply("team-b/a", "small")
		w.refused("team-b/b", "small", "this cluster has 3 claims of this API, and may have 3")
		w.apply("a", "big") // No weights.
	})
	t.Run("by weight", func(t *testing.T) {
		w := newWorld(t, &v1alpha1.Quota{Namespace: limit(100, 5), Weights: plans})
		w.there["a"] = "big"
		w.refused("b", "big", "namespace team-a has 4 of 5 by weight, and this claim weighs 4")
		w.apply("c", "unknown")
		w.apply("d", "free")
		w.refused("c", "big", "namespace team-a has 5 of 5")
		w.apply("a", "small")
		w.apply("team-b/a", "big")
	})
	t.Run("what is there stays", func(t *testing.T) {
		w := newWorld(t, &v1alpha1.Quota{Cluster: limit(1, 2), Weights: plans})
		w.there = map[string]string{"a": "big", "b": "small"}
		w.apply("a", "big")
		w.apply("b", "free")
		w.refused("b", "small", "by weight")
		w.refused("c", "free", "may have 1")
		if why, err := w.Take(t.Context(), key("lost"), w.quota, object("big"), true, nil); why != "" || err != nil {
			t.Errorf("one that goes on as it was: %s, %v", why, err)
		}
	})
}

// Who waited longest comes first, unless there is room for a lighter one only.
func TestWhoWaitsIsCalledInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &v1alpha1.Quota{Cluster: limit(100, 5), Weights: plans})
	w.there = map[string]string{"a": "big", "b": "small"}
	w.refused("first", "big", "by weight")
	w.refused("second", "small", "by weight")
	w.refused("third", "small", "by weight")
	w.wantCalled()
	w.Settle(key("b"), w.quota, false, false)
	w.wantCalled("second")
	w.refused("late", "small", "wait longer")
	w.apply("second", "small")
	w.wantCalled()
	w.Settle(key("a"), w.quota, false, false)
	w.wantCalled("first")
	w.refused("third", "small", "wait longer")
	t.Log("the file of the first one is removed meanwhile")
	w.Settle(key("first"), w.quota, false, false)
	w.wantCalled("third")
	w.apply("third", "small")
	w.wantCalled("late", "late")
}

func TestWhatFailedGivesItsRoomBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &v1alpha1.Quota{Cluster: limit(1, 4), Weights: plans})
	if why := w.take("a", "small"); why != "" {
		t.Fatal(why)
	}
	w.refused("b", "small", "may have 1")
	w.Settle(key("a"), w.quota, false, false)
	w.wantCalled("b")
	w.apply("b", "small")
	if why := w.take("b", "big"); why != "" {
		t.Fatal(why)
	}
	w.Settle(key("b"), w.quota, true, false)
	if got := w.used(); got != (use{1, 1}) {
		t.Errorf("after a larger plan was not applied, %+v is used", got)
	}
}

// One is counted again when another look finds an object that was applied without a quota.
func TestWhatIsBeingMadeHeavierKeepsItsRoomWhenAllIsCountedAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		settle func(*world)
		want   use
	}{
		"it is applied":     {func(w *world) { w.Applied(key("a"), w.quota, object("big")) }, use{2, 5}},
		"it is not applied": {func(*world) {}, use{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &v1alpha1.Quota{Cluster: limit(100, 5), Weights: plans})
			w.there["a"] = "small"
			if why := w.take("a", "big"); why != "" {
				t.Fatal(why)
			}
			w.there["b"] = "small"
			w.Settle(key("b"), w.quota, true, false)
			w.refused("c", "small", "has 5 of 5 by weight")
			end.settle(w)
			w.Settle(key("a"), w.quota, true, false)
			if got := w.used(); w.loads != 2 || got != end.want {
				t.Errorf("counted %d times, and %+v is used", w.loads, got)
			}
		})
	}
}

func TestAnotherQuotaIsCountedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &v1alpha1.Quota{Cluster: limit(2, 0)})
	w.there["a"] = "small"
	w.apply("b", "small")
	w.there["b"] = "small"
	if w.loads != 1 {
		t.Errorf("counted %d times", w.loads)
	}
	w.quota = &v1alpha1.Quota{Cluster: limit(2, 6), Weights: plans}
	w.refused("c", "small", "may have 2")
	if got := w.used(); w.loads != 2 || got != (use{2, 2}) {
		t.Errorf("counted %d times, and %+v is used", w.loads, got)
	}
	t.Log("one that was applied while there was no quota")
	w.there["d"] = "small"
	w.Settle(key("d"), w.quota, true, false)
	w.refused("c", "small", "has 3 claims")

	no := errors.New("no")
	w.Settle(key("a"), nil, true, false)
	if _, err := w.Take(t.Context(), key("c"), w.quota, object("small"), false, func(context.Context, func(contract.Key, map[string]any)) error { return no }); !errors.Is(err, no) {
		t.Errorf("error is %v", err)
	}
}

func TestConcurrentClaimsDoNotPassTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &v1alpha1.Quota{Namespace: limit(7, 0)})
	var group sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for i := range 50 {
		group.Go(func() {
			name := fmt.Sprint("c", i)
			why, err := w.Take(t.Context(), key(name), w.quota, object("small"), false, func(context.Context, func(contract.Key, map[string]any)) error { return nil })
			if err != nil {
				t.Error(err)
			}
			if why == "" {
				w.Applied(key(name), w.quota, object("small"))
				mu.Lock()
				in++
				mu.Unlock()
			}
			w.Settle(key(name), w.quota, why == "", why != "")
		})
	}
	group.Wait()
	if in != 7 {
		t.Errorf("%d came in", in)
	}
}

// Whatever comes and goes, what is counted is what is there, no limit is passed, and nobody
// waits for room that there is without being called.
func TestCountsAreRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, &v1alpha1.Quota{Namespace: limit(3, 8), Cluster: limit(5, 10), Weights: plans})
		names := []string{"a", "b", "c", "d", "team-b/a", "team-b/b", "team-b/c"}
		there, waits := map[string]string{}, map[string]string{}
		// look is one at a claim that wants a plan, "" for none.
		look := func(name, plan string, fails bool) {
			if plan == "" {
				delete(there, name)
				delete(waits, name)
				w.Settle(key(name), w.quota, false, false)
				return
			}
			_, exists := there[name]
			if why := w.take(name, plan); why != "" {
				waits[name] = plan
				w.Settle(key(name), w.quota, exists, true)
				return
			}
			delete(waits, name)
			if !fails {
				w.Applied(key(name), w.quota, object(plan))
				there[name], exists = plan, true
			}
			w.Settle(key(name), w.quota, exists, false)
		}
		look("a", "small", false)
		last := w.of(key("a").Binding).Usage(w.quota)
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			w.changed = 0
			look(rapid.SampledFrom(names).Draw(r, "name"), rapid.SampledFrom([]string{"", "small", "big", "free"}).Draw(r, "plan"), rapid.Bool().Draw(r, "fails"))
			for n := 0; len(w.called) > 0 && n < 100; n++ {
				next := w.called[0]
				w.called = w.called[1:]
				if plan, ok := waits[next]; ok {
					look(next, plan, false)
				}
			}
			var want use
			for _, plan := range there {
				want.claims, want.weight = want.claims+1, want.weight+plans.Values[plan]
			}
			g := w.of(key("a").Binding)
			if got := w.used(); got != want || want.claims > 5 || want.weight > 10 {
				r.Fatalf("%+v is counted of %v", got, there)
			}
			if next, ok := g.Next(w.quota); ok {
				r.Fatalf("%s waits for %s, of %v", next, waits[next.Name], there)
			}
			usage := g.Usage(w.quota)
			if len(usage.Waiting) != len(waits) {
				r.Fatalf("%v wait, not %v", usage.Waiting, waits)
			}
			if d := cmp.Diff(last, usage); d != "" && w.changed == 0 {
				r.Fatalf("it is not told that the usage is another:\n%s", d)
			}
			last = usage
		}
	})
}

// While an API server lists nothing, all looks at claims of the API wait for the count.
func TestACountEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &v1alpha1.Quota{Cluster: limit(5, 0)})
		never := func(ctx context.Context, _ func(contract.Key, map[string]any)) error {
			<-ctx.Done()
			return ctx.Err()
		}
		if _, err := w.Usage(t.Context(), key("a").Binding, w.quota, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		w.Settle(key("a"), w.quota, true, false)
		w.apply("a", "small")
	})
}
