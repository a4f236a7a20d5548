package branch

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/store"
)

// When the commits that went by are said to suffice, the answer is that of the
// whole history. Every commit comes before its parents.
func TestLogOfHalfKnownHistories(t *testing.T) {
	answered := 0
	rapid.Check(t, func(t *rapid.T) {
		all, some := commitCache{limit: math.MaxInt}, commitCache{limit: math.MaxInt}
		n := rapid.IntRange(1, 12).Draw(t, "commits")
		for i := range n {
			c := store.Commit{Hash: name(i), Time: time.Unix(int64(rapid.IntRange(0, 5).Draw(t, "time")), 0)}
			if i > 0 {
				for range rapid.IntRange(0, 2).Draw(t, "parents") {
					if p := name(max(0, i-rapid.IntRange(1, 4).Draw(t, "back"))); !slices.Contains(c.Parents, p) {
						c.Parents = append(c.Parents, p)
					}
				}
			}
			all.add(c)
			if rapid.IntRange(0, 3).Draw(t, "unknown") > 0 {
				some.add(c)
			}
		}
		since := name(rapid.IntRange(0, n-1).Draw(t, "since"))
		to := name(rapid.IntRange(0, n-1).Draw(t, "to"))
		if since == to {
			return
		}
		if rapid.IntRange(0, 5).Draw(t, "from the beginning") == 0 {
			since = ""
		}

		reach := func(from store.Hash) map[store.Hash]bool {
			m := map[store.Hash]bool{}
			all.walk(from, func(h store.Hash, known bool) bool { m[h] = known; return true })
			return m
		}
		old := map[store.Hash]bool{}
		if since != "" {
			old = reach(since)
		}
		want := map[store.Hash]bool{}
		for h := range reach(to) {
			if !old[h] {
				want[h] = true
			}
		}
		check := func(c *commitCache, mustAnswer bool) {
			commits, descends, complete := c.log(since, to)
			if !complete {
				if mustAnswer {
					t.Fatal("the whole history does not suffice")
				}
				return
			}
			answered++
			if descends != reach(to)[since] {
				t.Fatalf("descends: %v", descends)
			}
			seen := map[store.Hash]bool{}
			for _, commit := range commits {
				for _, p := range commit.Parents {
					if seen[p] {
						t.Fatalf("%s after its parent %s", commit.Hash, p)
					}
				}
				seen[commit.Hash] = true
			}
			if fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Fatalf("since %q to %q: %v, want %v", since, to, seen, want)
			}
		}
		check(&all, true)
		check(&some, false)

		depth := rapid.IntRange(1, 6).Draw(t, "depth")
		near := map[store.Hash]bool{to: true}
		for range depth - 1 {
			for h := range maps.Clone(near) {
				for _, p := range all.byID[h].Parents {
					near[p] = true
				}
			}
		}
		for _, c := range []*commitCache{&all, &some} {
			commits, complete := c.recent(to, depth)
			got := map[store.Hash]bool{}
			for _, commit := range commits {
				got[commit.Hash] = true
			}
			if complete && fmt.Sprint(got) != fmt.Sprint(near) || !complete && c == &all {
				t.Fatalf("fewer than %d from %q: %v, want %v", depth, to, got, near)
			}
		}
	})
	if answered == 0 {
		t.Error("it never had an answer")
	}
}

func name(i int) store.Hash { return store.Hash(fmt.Sprintf("%02d", i)) }

func TestCommitsAreForgottenWhenTheyTakeTooMuch(t *testing.T) {
	var c commitCache
	for i := range 100 {
		c.add(store.Commit{Hash: name(i), Message: string(make([]byte, 1<<20))})
	}
	if len(c.byID) > 4 || len(c.byID) != len(c.order) {
		t.Errorf("%d commits of 1 MiB are kept", len(c.byID))
	}
	if _, ok := c.byID[name(99)]; !ok {
		t.Error("the last one is forgotten")
	}
}
