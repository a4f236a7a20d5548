package guard

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
)

func TestAnApprovalCoversDeletesThatHadBegun(t *testing.T) {
	a := Approval{Commit: "c5", UpTo: now}
	for since, want := range map[time.Time]bool{now: true, now.Add(-time.Hour): true, now.Add(1): false, {}: false} {
		if got := a.CoversDelete(since); got != want {
			t.Errorf("since %s: %v", since, got)
		}
	}
	if (Approval{UpTo: now}).CoversDelete(now) {
		t.Error("none covers something")
	}
}

func TestL14_AnApprovalOfTheFuture(t *testing.T) {
	for upTo, want := range map[time.Time]bool{{}: false, now.Add(-time.Hour): false, now: false, now.Add(time.Minute): false, now.Add(time.Minute + 1): true, now.Add(24 * time.Hour): true} {
		if got := (Approval{Commit: "c5", UpTo: upTo}).IsAhead(now, time.Minute); got != want {
			t.Errorf("up to %s: %v", upTo, got)
		}
	}
}

func TestAnApprovalCoversWhatWasHeldBefore(t *testing.T) {
	of := &line{head: 5}
	for _, tc := range []struct {
		v    Verdict
		want bool
	}{
		{Verdict{Reason: contract.ManyRemovals, Commit: "c5"}, true},
		{Verdict{Reason: contract.ManyRemovals, Commit: "c3"}, true},
		{Verdict{Reason: contract.Moved, Commit: "c3"}, true},
		{Verdict{Reason: contract.ManyRemovals, Commit: "c6"}, false},
		{Verdict{Reason: contract.NotRemoved, Commit: "c3"}, false},
		{Verdict{Reason: contract.NotRemoved, Commit: "c5"}, true},
	} {
		got, err := Approval{Commit: "c5"}.CoversHeld(t.Context(), tc.v, NewLineage(of.ask, "c5", nil))
		if got != tc.want || err != nil {
			t.Errorf("%+v: %v %v", tc.v, got, err)
		}
	}
	of.err = errors.New("no answer")
	if got, err := (Approval{Commit: "c5"}).CoversHeld(t.Context(), Verdict{Commit: "c3"}, NewLineage(of.ask, "c5", nil)); got || err == nil {
		t.Errorf("%v %v", got, err)
	}
}

// past is a history c1 … c9: people made some commits, and files are known of some.
type past struct {
	people []int
	files  map[string]bool
	broken string
}

func (p past) Descends(_ context.Context, since, to string) (bool, bool, error) {
	if since == p.broken {
		return true, true, errors.New("no answer")
	}
	from, until := int(since[1]-'0'), int(to[1]-'0')
	return from <= until, !slices.ContainsFunc(p.people, func(i int) bool { return from < i && i <= until }), nil
}

func (p past) HadFile(commit, _ string) (had, known bool) {
	had, known = p.files[commit]
	return had, known
}

func TestAnApprovalCoversFilesThatWereGone(t *testing.T) {
	path := keyOf(0).Path()
	for _, tc := range []struct {
		name         string
		commit       string
		agreed, head string
		past         past
		want         bool
	}{
		{"gone at the head", "c5", "c3", "c5", past{people: []int{4, 5}}, true},
		{"agreed at the head itself", "c5", "c5", "c5", past{}, true},
		{"no approval", "", "c3", "c5", past{}, false},
		{"nothing was agreed", "c5", "", "c5", past{}, false},
		{"agreed on since", "c5", "c6", "c7", past{files: map[string]bool{"c5": false}}, false},
		{"gone at an older commit that is known", "c5", "c3", "c7", past{people: []int{6}, files: map[string]bool{"c5": false}}, true},
		{"there at an older commit that is known", "c5", "c3", "c7", past{files: map[string]bool{"c5": true}}, false},
		{"only the konnector has pushed since", "c5", "c3", "c7", past{people: []int{5}}, true},
		{"a person has pushed since", "c5", "c3", "c7", past{people: []int{7}}, false},
		{"of another history", "c8", "c3", "c7", past{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Approval{Commit: tc.commit}.CoversFile(t.Context(), path, tc.agreed, tc.head, tc.past)
			if got != tc.want || err != nil {
				t.Errorf("%v %v", got, err)
			}
		})
	}
	for _, broken := range []string{"c3", "c5"} {
		if _, err := (Approval{Commit: "c5"}).CoversFile(t.Context(), path, "c3", "c7", past{broken: broken}); err == nil {
			t.Errorf("without an answer about %s: no error", broken)
		}
	}
}
