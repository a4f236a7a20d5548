package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line is a history c1, c2 … in which all know their ancestors. It notes questions.
type line struct {
	head      int
	questions []string
	err       error
}

func commit(i int) string { return fmt.Sprint("c", i) }

func (l *line) ask(_ context.Context, since, to string) ([]string, bool, error) {
	l.questions = append(l.questions, since+".."+to)
	if l.err != nil {
		return nil, false, l.err
	}
	var between []string
	for i := l.head; i > 0; i-- {
		if commit(i) == since {
			return between, true, nil
		}
		between = append(between, commit(i))
	}
	return between, false, nil
}

func (l *line) want(t *testing.T, questions ...string) {
	t.Helper()
	if diff := cmp.Diff(questions, l.questions); diff != "" {
		t.Errorf("questions (-want +got): %s", diff)
	}
	l.questions = nil
}

func has(t *testing.T, l *Lineage, want bool, commits ...string) {
	t.Helper()
	for _, c := range commits {
		if got, err := l.Has(t.Context(), c); got != want || err != nil {
			t.Errorf("has %q: %v %v, want %v", c, got, err, want)
		}
	}
}

func TestLineageAsksOnce(t *testing.T) {
	of := &line{head: 9}
	l := NewLineage(of.ask, "c9", []string{"c8", ""})
	has(t, l, true, "c9", "c8")
	has(t, l, false, "")
	of.want(t)
	has(t, l, true, "c5", "c7", "c5")
	of.want(t, "c5..c9")
	has(t, l, false, "x", "x")
	of.want(t, "x..c9")
	has(t, l, true, "c3")
	of.want(t, "c3..c9")
}

func TestLineageKnowsWithoutAQuestionWhatItsHeadPassed(t *testing.T) {
	of := &line{head: 9}
	l := NewLineage(of.ask, "c6", nil)
	if l.Passed("c8") || l.Passed("") {
		t.Error("it passed what comes later, or nothing")
	}
	l.Accept("c9", []string{"c9", "c8", "c7"})
	if !l.Passed("c8") || !l.Passed("c9") || l.Passed("c5") {
		t.Error("it does not know what it passed")
	}
	of.want(t)
}

func TestLineageGoesOnWithItsHead(t *testing.T) {
	of := &line{head: 9}
	l := NewLineage(of.ask, "c7", nil)
	has(t, l, false, "x")
	of.want(t, "x..c7")
	l.Accept("c7", nil)
	has(t, l, false, "x")
	of.want(t)
	l.Accept("c9", []string{"c8"})
	has(t, l, true, "c7", "c8", "c9")
	of.want(t)
	// It may have been merged.
	has(t, l, false, "x")
	of.want(t, "x..c9")
	l.Begin("c2")
	of.head = 2
	has(t, l, true, "c2")
	of.want(t)
	has(t, l, false, "c9")
	of.want(t, "c9..c2")
	l.Begin("")
	has(t, l, false, "c2", "")
	of.want(t)
}

func TestLineageReadsAllOfHistoryRatherThanAskForever(t *testing.T) {
	of := &line{head: 30}
	l := NewLineage(of.ask, "c30", nil)
	var want []string
	for i := range maxQuestions {
		has(t, l, false, fmt.Sprint("x", i))
		want = append(want, fmt.Sprintf("x%d..c30", i))
	}
	of.want(t, want...)
	has(t, l, false, "y")
	of.want(t, "..c30")
	has(t, l, true, "c1", "c29")
	has(t, l, false, "z", "z")
	of.want(t)
	l.Accept("c31", nil)
	of.head = 31
	has(t, l, false, "z")
	of.want(t, "z..c31")

	l = NewLineage(of.ask, "c31", nil)
	for i := range maxQuestions {
		has(t, l, false, fmt.Sprint("x", i))
	}
	of.questions = nil
	has(t, l, true, "c3")
	of.want(t, "..c31")
}

func TestLineageKeepsNoErrorAndNothingOfAnotherHead(t *testing.T) {
	of := &line{head: 9, err: errors.New("no answer")}
	l := NewLineage(of.ask, "c9", nil)
	if _, err := l.Has(t.Context(), "c3"); err == nil {
		t.Error("no error")
	}
	of.err = nil
	has(t, l, true, "c3")

	// Main begins again while an answer is under way.
	var moving *Lineage
	moving = NewLineage(func(ctx context.Context, since, to string) ([]string, bool, error) {
		moving.Begin("d1")
		return of.ask(ctx, since, to)
	}, "c9", nil)
	has(t, moving, true, "c3")
	of.questions = nil
	if slices.Contains([]bool{moving.Passed("c3"), moving.Passed("c5"), moving.complete}, true) {
		t.Errorf("kept of another head: %v", moving.part)
	}
}

func TestLineageAsksAboutOneCommitWhereAllOfHistoryIsTooLong(t *testing.T) {
	of := &line{head: 30}
	l := NewLineage(func(ctx context.Context, since, to string) ([]string, bool, error) {
		if since == "" {
			return nil, false, errors.New("too long")
		}
		return of.ask(ctx, since, to)
	}, "c30", nil)
	for i := range maxQuestions {
		has(t, l, false, fmt.Sprint("x", i))
	}
	of.questions = nil
	has(t, l, true, "c28", "c29")
	has(t, l, false, "y")
	of.want(t, "c28..c30", "y..c30")
}

// After a start, a push that changed many files has many ask at once.
func TestLineageAsksOnceForManyAtOnce(t *testing.T) {
	of := &line{head: 300}
	var begun, all sync.WaitGroup
	begun.Add(200)
	l := NewLineage(func(ctx context.Context, since, to string) ([]string, bool, error) {
		begun.Wait()
		return of.ask(ctx, since, to)
	}, "c300", nil)
	for i := range 200 {
		all.Go(func() {
			begun.Done()
			has(t, l, true, commit(i+1))
		})
	}
	all.Wait()
	if n := len(of.questions); n > maxQuestions+1 {
		t.Errorf("%d questions, want %d about single commits at most, and then one for all", n, maxQuestions)
	}
}

// A konnector that runs for months passes millions of commits.
func TestH2_ALineageRemembersABoundedNumberOfCommits(t *testing.T) {
	l, of := longLived(t, 30, func(*Lineage, int) {})
	if n := l.part.len(); n > 2*few {
		t.Errorf("%d commits are remembered, want %d at most", n, 2*few)
	}
	has(t, l, true, "c30", "c21")
	of.want(t)
	has(t, l, true, "c1", "c1")
	has(t, l, false, "x")
	of.want(t, "c1..c30", "x..c30")
}

func TestALineageRemembersWhatItIsAskedAboutAgainAndAgain(t *testing.T) {
	l, of := longLived(t, 90, func(l *Lineage, head int) {
		if head%(few/2) == 0 {
			has(t, l, true, "c1")
		}
	})
	has(t, l, true, "c1")
	of.want(t)
	has(t, l, true, "c2")
	of.want(t, "c2..c90")
}

func TestALineageThatForgotSomeOfItsHistoryAsksAgain(t *testing.T) {
	for head := few; head < 4*few; head++ {
		of := &line{head: head}
		l := NewLineage(of.ask, commit(head), nil)
		l.part.most = few
		for i := range maxQuestions + 1 {
			has(t, l, false, fmt.Sprint("x", i))
		}
		has(t, l, true, commit(head), "c1", "c2", "c3")
	}
}

// few is how many commits are remembered in tests.
const few = 10

// longLived goes on to a head, one commit after the other.
func longLived(t *testing.T, head int, each func(l *Lineage, head int)) (*Lineage, *line) {
	t.Helper()
	of := &line{head: 1}
	l := NewLineage(of.ask, "c1", nil)
	if l.part.most != maxCommits {
		t.Errorf("%d commits are remembered, want %d", l.part.most, maxCommits)
	}
	l.part.most = few
	for of.head < head {
		of.head++
		l.Accept(commit(of.head), nil)
		each(l, of.head)
	}
	return l, of
}
