package quota

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

func limit(claims, weight int64) *v1alpha1.QuotaLimit {
	l := &v1alpha1.QuotaLimit{Claims: &claims}
	if weight > 0 {
		l.Weight = &weight
	}
	return l
}

// key is a claim of namespace team-a, or of the namespace before the slash.
func key(name string) contract.Key {
	namespace, rest, ok := strings.Cut(name, "/")
	if !ok {
		namespace, rest = "team-a", name
	}
	return contract.Key{Binding: "caches.example.org", Namespace: namespace, Name: rest}
}

const none = -1

// change is what becomes of a claim by its weights, or none.
func change(name string, was, is int64) Change {
	c := Change{Key: key(name)}
	if was != none {
		c.Was = &was
	}
	if is != none {
		c.Is = &is
	}
	return c
}

func TestPredict(t *testing.T) {
	t.Parallel()
	byNumber := &v1alpha1.Quota{Namespace: limit(2, 0), Cluster: limit(5, 0)}
	byWeight := &v1alpha1.Quota{Cluster: limit(100, 10), Weights: &v1alpha1.QuotaWeights{}}
	two := int64(2)
	usage := func(all Use, namespace int64, waiting ...v1alpha1.WaitingClaim) *v1alpha1.QuotaUsage {
		return &v1alpha1.QuotaUsage{Claims: all.Claims, Weight: all.Weight, Namespaces: []v1alpha1.NamespaceUsage{{Name: "team-a", Claims: namespace, Weight: namespace}}, Waiting: waiting}
	}
	many := &v1alpha1.QuotaUsage{Claims: 5000, Weight: 5000}
	for i := range v1alpha1.MaxNamespaceUsages {
		many.Namespaces = append(many.Namespaces, v1alpha1.NamespaceUsage{Name: fmt.Sprint("n", i), Claims: 2, Weight: 2})
	}
	for name, c := range map[string]struct {
		quota   *v1alpha1.Quota
		usage   *v1alpha1.QuotaUsage
		changes []Change
		want    map[string]string
	}{
		"nothing":       {byNumber, usage(Use{2, 2}, 2), nil, nil},
		"there is room": {byNumber, usage(Use{1, 1}, 1), []Change{change("new", none, 1)}, nil},
		"there is none in the namespace": {byNumber, usage(Use{2, 2}, 2), []Change{change("new", none, 1), change("team-b/new", none, 1)},
			map[string]string{"team-a/new": "namespace team-a has 2 claims of this API, and may have 2. Delete one, or ask"}},
		"there is none in the cluster": {byNumber, usage(Use{5, 5}, 1), []Change{change("new", none, 1)},
			map[string]string{"team-a/new": "this cluster has 5 claims of this API, and may have 5. Delete"}},
		"there is room for one of two": {byNumber, usage(Use{1, 1}, 1), []Change{change("new", none, 1), change("newer", none, 1)},
			map[string]string{"team-a/newer": "with the rest of this change, namespace team-a has 2 claims"}},
		"a larger plan": {byWeight, usage(Use{3, 8}, 3), []Change{change("a", 1, 4), change("b", 1, 2), change("c", 4, 4)},
			map[string]string{"team-a/a": "this cluster has 8 of 10 by weight, and this claim weighs 4. Delete one, choose a lighter one, or ask"}},
		"a larger plan, and a smaller one elsewhere": {byWeight, usage(Use{3, 10}, 3), []Change{change("a", 1, 4), change("b", 5, 2)}, nil},
		"a larger plan, and one goes":                {byWeight, usage(Use{3, 10}, 3), []Change{change("a", 1, 4), change("b", 5, none)}, nil},
		"a larger plan, and one goes that others wait for": {
			byWeight, usage(Use{3, 10}, 3, v1alpha1.WaitingClaim{Namespace: "team-b", Name: "w", Weight: 5}), []Change{change("a", 1, 4), change("b", 5, none)},
			map[string]string{"team-a/a": "this cluster has 10 of 10 by weight"}},
		"others wait for more than there is": {
			byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-b", Name: "w", Weight: 5}), []Change{change("a", none, 2)}, nil},
		"one that waits becomes lighter":                    {byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 5}), []Change{change("w", 5, 2)}, nil},
		"one that waits becomes lighter, and yet too heavy": {byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 5}), []Change{change("w", 5, 3)}, map[string]string{"team-a/w": "weighs 3"}},
		"one that waits for a larger plan":                  {byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 5, Has: &two}), []Change{change("w", 5, 4)}, nil},
		"one that waits for a larger plan yet":              {byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 6, Has: &two}), []Change{change("w", 6, 5)}, map[string]string{"team-a/w": "weighs 5"}},
		"one that waits goes":                               {byNumber, usage(Use{2, 2}, 2, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 1}), []Change{change("w", none, none), change("new", none, 1)}, map[string]string{"team-a/new": "has 2 claims"}},
		"one that waits becomes lighter, and keeps its place": {
			byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 5}), []Change{change("new", none, 2), change("w", none, 2)},
			map[string]string{"team-a/new": "with the rest of this change, this cluster has 10 of 10"}},
		"one that waits is before those that came later": {
			byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 5}, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "v", Weight: 4}), []Change{change("v", none, 2), change("w", none, 2)},
			map[string]string{"team-a/v": "with the rest of this change, this cluster has 10 of 10"}},
		"one that waits for a larger plan has it no more": {
			byWeight, usage(Use{3, 8}, 3, v1alpha1.WaitingClaim{Namespace: "team-a", Name: "w", Weight: 6, Has: &two}), []Change{change("w", 6, 2), change("x", none, 2)}, nil},
		"a namespace that is not told of": {&v1alpha1.Quota{Namespace: limit(2, 0)}, many, []Change{change("new", none, 1), change("n1/new", none, 1)}, map[string]string{"n1/new": "namespace n1 has 2 claims"}},
		"over a limit that was lowered":   {byWeight, usage(Use{3, 20}, 3), []Change{change("a", 5, 5), change("b", 5, 4), change("c", 5, 6)}, map[string]string{"team-a/c": "has 19 of 10"}},
	} {
		got := Predict(c.quota, c.usage, c.changes)
		for _, change := range c.changes {
			of := change.Key.Namespace + "/" + change.Key.Name
			if why := got[change.Key]; (why == "") != (c.want[of] == "") || !strings.HasPrefix(why, c.want[of]) && !strings.Contains(why, " "+c.want[of]) {
				t.Errorf("%s: %s waits for %q, want %q", name, of, why, c.want[of])
			}
		}
	}
}

// What is published of a full account says what the account itself says.
func TestWhatIsPublishedSaysWhatTheAccountSays(t *testing.T) {
	t.Parallel()
	q := &v1alpha1.Quota{Namespace: limit(3, 8), Cluster: limit(5, 10), Weights: &v1alpha1.QuotaWeights{}}
	names := []string{"a", "b", "c", "d", "team-b/a", "team-b/b", "team-b/c"}
	rapid.Check(t, func(r *rapid.T) {
		a := NewAccount()
		look := func(name string, weight int64) string {
			why := a.Refusal(q, key(name), weight)
			if why != "" {
				a.Wait(key(name), weight)
				return why
			}
			a.Set(key(name), weight)
			a.Leave(key(name))
			return ""
		}
		for range rapid.IntRange(0, 20).Draw(r, "steps") {
			look(rapid.SampledFrom(names).Draw(r, "name"), rapid.Int64Range(0, 4).Draw(r, "weight"))
			// Who waits is looked at again.
			for next, ok := a.Next(q); ok; next, ok = a.Next(q) {
				a.Set(next, a.waiting[next])
				a.Leave(next)
			}
		}
		name, weight := rapid.SampledFrom(names).Draw(r, "name"), rapid.Int64Range(0, 4).Draw(r, "weight")
		c := change(name, none, weight)
		if has, ok := a.Weight(c.Key); ok {
			c.Was = &has
		}
		got := Predict(q, a.Usage(q), []Change{c})[c.Key]
		if want := look(name, weight); got != want {
			r.Fatalf("predicted %q, and it is %q", got, want)
		}
	})
}

func TestUsageIsBoundedAndTellsOfTheFullest(t *testing.T) {
	t.Parallel()
	q := &v1alpha1.Quota{Namespace: limit(10, 100), Weights: &v1alpha1.QuotaWeights{}}
	a := NewAccount()
	for i := range v1alpha1.MaxNamespaceUsages + 100 {
		a.Set(key(fmt.Sprintf("n%03d/a", i)), 1)
		a.Wait(key(fmt.Sprintf("n%03d/b", i)), 200)
	}
	a.Set(key("z-heavy/a"), 99)
	a.Set(key("z-many/a"), 1)
	a.Set(key("z-many/b"), 1)
	got := a.Usage(q)
	if len(got.Namespaces) != v1alpha1.MaxNamespaceUsages || len(got.Waiting) != v1alpha1.MaxWaitingClaims {
		t.Fatalf("%d namespaces, %d wait", len(got.Namespaces), len(got.Waiting))
	}
	want := []v1alpha1.NamespaceUsage{{Name: "z-heavy", Claims: 1, Weight: 99}, {Name: "z-many", Claims: 2, Weight: 2}, {Name: "n000", Claims: 1, Weight: 1}}
	if d := cmp.Diff(want, got.Namespaces[:3]); d != "" {
		t.Error(d)
	}
	if again := a.Usage(&v1alpha1.Quota{Namespace: limit(10, 101), Weights: &v1alpha1.QuotaWeights{}}); got.QuotaHash == "" || again.QuotaHash == got.QuotaHash {
		t.Errorf("by another limit, it has the hash %q, and had %q", again.QuotaHash, got.QuotaHash)
	}
	if got := a.Usage(&v1alpha1.Quota{Cluster: limit(10, 0)}); len(got.Namespaces) > 0 || got.Claims != int64(v1alpha1.MaxNamespaceUsages+103) {
		t.Errorf("%+v", got)
	}
}
