package review

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/backend/internal/clusterqueue"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// slow is a Git of which the changes of some clusters take until their context ends, or until
// its own deadline for each.
type slow struct {
	*world
	branches map[string]int
	deadline time.Duration

	mu sync.Mutex
	// looked is how often each was looked at, by cluster and branch.
	looked map[string]int
}

func (s *slow) Branches(_ context.Context, cluster string) (all []string, err error) {
	for i := range max(s.branches[cluster], 1) {
		all = append(all, fmt.Sprintf("changes/%03d", i))
	}
	return all, nil
}

func (s *slow) Change(ctx context.Context, cluster, branch string) (*githost.Change, error) {
	c := s.change
	c.Branch = branch
	s.mu.Lock()
	s.looked[cluster+" "+branch]++
	s.mu.Unlock()
	if s.branches[cluster] == 0 {
		return &c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	<-ctx.Done()
	return nil, fmt.Errorf("read repository %s: %w", cluster, ctx.Err())
}

func newSlow(t *testing.T, branches map[string]int, deadline, round time.Duration) (*slow, *shown, *Checks) {
	w := newWorld()
	git, host := &slow{world: w, branches: branches, deadline: deadline, looked: map[string]int{}}, &shown{}
	s := w.service(t, nil)
	s.Git = git
	c := NewChecks(s, host, func(string, restapi.RefEvent) {})
	c.roundTimeout = round
	return git, host, c
}

// isMore reports whether a look was a round of a pass that goes on.
func isMore(err error) bool { return errors.As(err, new(*clusterqueue.LaterError)) }

func TestSlowChangesOfTwoClustersKeepNoOtherFromBeingLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, host, c := newSlow(t, map[string]int{"slow1": 200, "slow2": 200}, 100*time.Millisecond, 200*time.Millisecond)
		c.moved.Add("slow1")
		c.moved.Add("slow2")
		c.moved.Add(cluster)
		var running sync.WaitGroup
		running.Go(func() { c.Run(t.Context()) })
		t.Cleanup(running.Wait)
		time.Sleep(c.roundTimeout)
		synctest.Wait()
		if len(host.all) != 1 {
			t.Errorf("%d checks after a round of the others, want 1", len(host.all))
		}
	})
}

func TestARoundGoesOnWhereTheOneBeforeEnded(t *testing.T) {
	git, _, c := newSlow(t, map[string]int{"slow1": 7}, 40*time.Millisecond, 100*time.Millisecond)
	c.Moved("slow1", restapi.RefEvent{Ref: contract.MainRef})
	rounds := 1
	for isMore(c.look(t.Context(), "slow1")) {
		if rounds++; rounds > 20 {
			t.Fatal("it does not end")
		}
	}
	if rounds < 3 {
		t.Errorf("%d rounds", rounds)
	}
	again := 0
	for i := range 7 {
		n := git.looked[fmt.Sprintf("slow1 changes/%03d", i)]
		if n == 0 {
			t.Errorf("branch %d is never looked at", i)
		}
		again += n - 1
	}
	// One in each round may have run into the end of that.
	if again >= rounds {
		t.Errorf("%d looks more than one at each, in %d rounds", again, rounds)
	}
	// A pass that begins looks at all.
	if err := c.look(t.Context(), "slow1"); !isMore(err) || git.looked["slow1 changes/000"] != 2 {
		t.Errorf("%v, %v", err, git.looked)
	}
}

// What moves while a pass goes on may be a branch that it has passed.
func TestWhatMovesDuringAPassIsLookedAtAfterIt(t *testing.T) {
	_, _, c := newSlow(t, map[string]int{"slow1": 5}, 40*time.Millisecond, 100*time.Millisecond)
	if err := c.look(t.Context(), "slow1"); !isMore(err) {
		t.Fatal(err)
	}
	c.Moved("slow1", restapi.RefEvent{Ref: contract.MainRef})
	for isMore(c.look(t.Context(), "slow1")) {
	}
	if !c.passOf("slow1").moved {
		t.Error("it is forgotten")
	}
}

// A change that nobody can judge in time is not judged ten times at once.
func TestAChangeThatTakesTooLongRepeatsNoRound(t *testing.T) {
	git, _, c := newSlow(t, map[string]int{"slow1": 2}, 10*time.Millisecond, time.Minute)
	if err := c.look(t.Context(), "slow1"); err != nil || git.looked["slow1 changes/001"] != 1 {
		t.Errorf("%v, %v", err, git.looked)
	}
}
