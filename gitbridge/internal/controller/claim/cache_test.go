package claim

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestBudget plays changes of one claim's status, at these times after the
// first, and counts commits. A change waits as long as it is told to.
func TestBudget(t *testing.T) {
	tests := []struct {
		name    string
		changes []time.Duration
		want    []time.Duration // of the commits
	}{
		{"the first is committed at once", ms(0), ms(0)},
		{"one that comes late, too", ms(0, 1500), ms(0, 1500)},
		{"back and forth is one commit", ms(0, 700, 720, 740, 755), ms(0, 760)},
		{"what never rests is committed once a second", flap(10*time.Second, 20*time.Millisecond), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := play(test.changes)
			if test.want == nil {
				if len(got) < 10 || len(got) > 14 {
					t.Errorf("%d commits in ten seconds: %v", len(got), got)
				}
				return
			}
			if len(got) != len(test.want) {
				t.Fatalf("commits at %v, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("commits at %v, want %v", got, test.want)
				}
			}
		})
	}
}

func ms(list ...int) []time.Duration {
	var out []time.Duration
	for _, n := range list {
		out = append(out, time.Duration(n)*time.Millisecond)
	}
	return out
}

func flap(length, every time.Duration) []time.Duration {
	var out []time.Duration
	for at := time.Duration(0); at < length; at += every {
		out = append(out, at)
	}
	return out
}

func play(changes []time.Duration) (commits []time.Duration) {
	var m cache
	start := time.Unix(1000, 0)
	dirty, wake := false, time.Duration(-1)
	for now := time.Duration(0); now < 20*time.Second; now += time.Millisecond {
		look := now == wake
		for len(changes) > 0 && changes[0] <= now {
			changes, dirty, look = changes[1:], true, true
		}
		if !look || !dirty {
			continue
		}
		switch wait := m.spend("p", start.Add(now)); wait {
		case 0:
			commits, dirty = append(commits, now), false
		default:
			wake = now + wait.Round(time.Millisecond)
		}
	}
	return commits
}

func TestWhatWasAppliedIsNewerThanWhatWatchingShows(t *testing.T) {
	object := func(uid, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetUID(types.UID(uid))
		u.SetResourceVersion(version)
		return u
	}
	var m cache
	old, applied, newer, other := object("a", "9"), object("a", "10"), object("a", "11"), object("b", "3")
	if got := m.newest("p", old); got != old {
		t.Error("nothing was applied, but it is not what watching shows")
	}
	m.wasApplied("p", applied)
	if got := m.newest("p", old); got != applied {
		t.Error("want what was applied over an older version")
	}
	if got := m.newest("p", nil); got != nil {
		t.Error("what watching does not show must be asked for")
	}
	if got := m.newest("p", newer); got != newer {
		t.Error("want the newer version that watching shows")
	}
	m.wasApplied("p", applied)
	if got := m.newest("p", other); got != other {
		t.Error("want another object that watching shows")
	}
}
