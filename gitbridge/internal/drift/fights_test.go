package drift_test

import (
	"strings"
	"testing"
	"time"

	"gitbind.dev/gitbridge/internal/drift"
)

func TestWhatFightsBackIsCorrectedLessAndLessOften(t *testing.T) {
	var f drift.Fights
	change := drift.Change{Fields: []string{"spec.a", "spec.b", "spec.c", "spec.d"}, Managers: []string{"operator"}}
	now := time.Unix(1000, 0)
	// Somebody changes it back at once, each time.
	var at []time.Duration
	for start, end := now, now.Add(3*time.Hour); now.Before(end); now = now.Add(time.Second) {
		if f.Wait("p", now) == 0 {
			f.Corrected("p", change, now)
			at = append(at, now.Sub(start))
		}
	}
	want := []time.Duration{0, time.Second, 2 * time.Second}
	for lag, next := time.Minute, 2*time.Second; ; lag = min(2*lag, 30*time.Minute) {
		if next += lag; next >= 3*time.Hour {
			break
		}
		want = append(want, next)
	}
	if len(at) != len(want) {
		t.Fatalf("corrected at %v, want %v", at, want)
	}
	for i := range at {
		if at[i] != want[i] {
			t.Fatalf("corrected at %v, want %v", at, want)
		}
	}
	words, rest := f.Words("p", now)
	if !strings.Contains(words, "operator keeps changing spec.a, spec.b, spec.c and 1 more") || rest <= 0 {
		t.Errorf("words %q for %s", words, rest)
	}
	now = now.Add(rest)
	if words, rest := f.Words("p", now); words != "" || rest != 0 {
		t.Errorf("after a while: words %q for %s", words, rest)
	}
	f.Corrected("p", change, now)
	if f.Wait("p", now) != 0 {
		t.Error("a correction long after a fight waits")
	}
}

func TestACorrectionNowAndThenIsNoFight(t *testing.T) {
	var f drift.Fights
	for now := time.Unix(1000, 0); now.Before(time.Unix(90000, 0)); now = now.Add(6 * time.Minute) {
		if words, _ := f.Words("p", now); words != "" || f.Wait("p", now) != 0 {
			t.Fatal(words, f.Wait("p", now))
		}
		f.Corrected("p", drift.Change{Fields: []string{"spec.a"}}, now)
	}
}

func TestWhatIsFoundRightAfterAnApplyIsNoDrift(t *testing.T) {
	var f drift.Fights
	if f.IsDrift("p", "") || !f.IsDrift("p", "x") {
		t.Error("before anything was applied")
	}
	f.Applied("p", "x")
	if f.IsDrift("p", "") || f.IsDrift("p", "x") || !f.IsDrift("p", "y") {
		t.Error("after it was applied")
	}
	f.Applied("p", "")
	if !f.IsDrift("p", "x") {
		t.Error("after it was applied as it should")
	}
}
