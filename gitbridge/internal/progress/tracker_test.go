package progress_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/internal/progress"
	"gitbind.dev/gitbridge/store"
)

func TestACommitIsAnsweredWhenAllItsPathsAre(t *testing.T) {
	var tracker progress.Tracker
	wantAnswered := func(want store.Hash) {
		t.Helper()
		if got := tracker.Answered(); got != want {
			t.Errorf("answered = %q, want %q", got, want)
		}
	}
	wantAnswered("")
	tracker.Advance("readme", nil)
	wantAnswered("readme")
	one := tracker.Advance("one", []string{"a", "b"})
	two := tracker.Advance("two", []string{"b"})
	tracker.Done("a", one)
	wantAnswered("readme")
	tracker.Done("b", one)
	wantAnswered("one")
	if !tracker.IsAnswered(one) || tracker.IsAnswered(two) {
		t.Error("want one answered, and two not")
	}
	tracker.Advance("three", nil)
	wantAnswered("one")
	tracker.Done("b", two)
	wantAnswered("three")
}

func TestWhatIsRetractedIsAnsweredByALaterCommitOnly(t *testing.T) {
	t.Parallel()
	var tracker progress.Tracker
	tracker.Advance("one", nil)
	two := tracker.Advance("two", []string{"a", "b"})
	tracker.Done("a", two)
	tracker.Retract()
	again := tracker.Advance("two", []string{"a"})
	tracker.Done("a", again)
	if got := tracker.Answered(); got != "" || tracker.IsAnswered(again) {
		t.Errorf("before b: %q", got)
	}
	tracker.Done("b", two)
	if got := tracker.Answered(); got != "two" || !tracker.IsAnswered(again) {
		t.Errorf("answered = %q, want two", got)
	}
}

func TestALaterAnswerCountsForWhatCameBefore(t *testing.T) {
	var tracker progress.Tracker
	tracker.Advance("one", []string{"a"})
	two := tracker.Advance("two", []string{"a"})
	tracker.Done("a", two)
	if got := tracker.Answered(); got != "two" {
		t.Errorf("answered = %q, want two", got)
	}
}

func TestAnsweredWithTellsWhatAWriteWouldComplete(t *testing.T) {
	var tracker progress.Tracker
	one := tracker.Advance("one", []string{"a", "b"})
	tracker.Advance("two", []string{"a"})
	asIfDone := func(paths ...string) store.Hash {
		return tracker.AnsweredWith(func(path string, g progress.Generation) bool {
			for _, p := range paths {
				if p == path && g <= one {
					return true
				}
			}
			return false
		})
	}
	if got := asIfDone("a"); got != "" {
		t.Errorf("with a: %q", got)
	}
	if got := asIfDone("a", "b"); got != "one" {
		t.Errorf("with a and b as of one: %q, want one", got)
	}
	if got := tracker.Answered(); got != "" {
		t.Errorf("asking changed it to %q", got)
	}
}

// TestNeverAheadNorBehind compares with the definition.
func TestNeverAheadNorBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tracker progress.Tracker
		var changed []map[string]bool            // by generation
		done := map[string]progress.Generation{} // newest answer of a path
		paths := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(changed) == 0 || rapid.Bool().Draw(t, "advance") {
				c := map[string]bool{}
				list := rapid.SliceOfNDistinct(paths, 0, 3, rapid.ID[string]).Draw(t, "paths")
				for _, p := range list {
					c[p] = true
				}
				changed = append(changed, c)
				tracker.Advance(store.Hash(fmt.Sprint(len(changed))), list)
			} else {
				p, g := paths.Draw(t, "path"), progress.Generation(rapid.IntRange(1, len(changed)).Draw(t, "generation"))
				tracker.Done(p, g)
				done[p] = max(done[p], g)
			}
			want := store.Hash("")
		commits:
			for i, c := range changed {
				for p := range c {
					if done[p] < progress.Generation(i+1) {
						break commits
					}
				}
				want = store.Hash(fmt.Sprint(i + 1))
			}
			if got := tracker.Answered(); got != want {
				t.Fatalf("answered = %q, want %q", got, want)
			}
		}
	})
}
