package githost

import (
	"errors"
	"testing"
	"time"
)

func TestAnAgentGetsAFewCredentialsAtOnceAndNobodyElsesAreFewer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var l IssueLimit
	for i := range issueBurst {
		if _, err := l.May("a", "konnector", now); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	var often *TooOftenError
	if _, err := l.May("a", "konnector", now); !errors.As(err, &often) || often.Until.Sub(now) > issueEvery || !often.Until.After(now) {
		t.Fatalf("one too many: %v", err)
	}
	_, err := l.May("a", "bridge", now)
	_, another := l.May("b", "konnector", now)
	if err := errors.Join(err, another); err != nil {
		t.Errorf("others: %v", err)
	}
	now = now.Add(issueEvery)
	if _, err := l.May("a", "konnector", now); err != nil {
		t.Errorf("later: %v", err)
	}
	if _, err := l.May("a", "konnector", now); err == nil {
		t.Error("later, twice")
	}
	for range 2 * issueBurst {
		undo, err := l.May("c", "owner", now)
		if err != nil {
			t.Fatalf("what is undone counts: %v", err)
		}
		undo()
	}
}
