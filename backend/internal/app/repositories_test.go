package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/backend/internal/review"
	"gitbind.dev/gitbridge/api/restapi"
)

// Nobody reads a conflict's version from the copy at once, and each look costs of the rate
// limit of the host elsewhere.
func TestWhatAgentsPushedIsLookedAtWhereItIsAProposedChange(t *testing.T) {
	var hinted, looked []string
	r := &repositories{
		hint: func(_ string, e restapi.RefEvent) { hinted = append(hinted, e.Ref) },
		look: func(cluster string) { looked = append(looked, cluster) },
	}
	for _, ref := range []string{"refs/heads/main", "refs/heads/status", "refs/heads/conflicts/a/b/c/1", "refs/heads/changes/a/b/c"} {
		r.pushed(ref, restapi.RefEvent{Ref: ref})
	}
	if !slices.Equal(hinted, []string{"refs/heads/main", "refs/heads/status"}) || !slices.Equal(looked, []string{"refs/heads/changes/a/b/c"}) {
		t.Errorf("hinted %v, looked at %v", hinted, looked)
	}
}

// judging is a Git that notes of which clusters the changes are asked for.
type judging struct {
	review.Git
	clusters chan string
}

func (j *judging) Branches(_ context.Context, cluster string) ([]string, error) {
	j.clusters <- cluster
	return nil, nil
}

// A copy has what the backend had copied before it was started again, and may not have judged: where
// nothing moves then, a pull request would be without its check.
func TestWhatWasCopiedBeforeARestartIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		git := &judging{clusters: make(chan string, 100)}
		r := &repositories{look: func(string) {}, ready: func(context.Context) error { return nil }, spare: &spare{}}
		r.checks = review.NewChecks(&review.Service{Git: git, Now: time.Now}, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.checks.Run(ctx) })
		running.Go(func() { r.lookAtAll(ctx, func(context.Context) []string { return []string{"a", "b"} }) })
		time.Sleep(3 * lookEvery)
		cancel()
		running.Wait()
		close(git.clusters)
		var judged []string
		for cluster := range git.clusters {
			judged = append(judged, cluster)
		}
		if !slices.Equal(judged, []string{"a", "b"}) {
			t.Errorf("judged are the changes of %q, want each cluster's once", judged)
		}
	})
}

// TestEachCopyIsLookedAtWithoutAWebhook has a host that is away for a while, and a cluster that comes.
func TestEachCopyIsLookedAtWithoutAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looked []string
		var away error
		clusters := []string{"a", "b", "c"}
		r := &repositories{look: func(cluster string) { looked = append(looked, cluster) }, ready: func(context.Context) error { return away }, spare: &spare{}}
		ctx, cancel := context.WithCancel(t.Context())
		go r.lookAtAll(ctx, func(context.Context) []string { return clusters })
		is := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if slices.Sort(looked); !slices.Equal(looked, want) {
				t.Errorf("%s: %v, want %v", what, looked, want)
			}
			looked = nil
		}
		is("at once", "a")
		time.Sleep(lookEvery / 2)
		is("not all at once", "b")
		time.Sleep(lookEvery / 2)
		is("once in a while, and again", "a", "c")
		away = errors.New("it is away")
		time.Sleep(2 * lookEvery)
		is("while the host is away")
		away, clusters = nil, nil
		for i := range 1000 {
			clusters = append(clusters, string(rune('0'+i)))
		}
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if most := int(2 * lookEvery / lookPause); len(looked) > most || len(looked) < most/4 {
			t.Errorf("of many it looked at %d, at most %d", len(looked), most)
		}
		// What is left of a limit is for others, too.
		looked = nil
		r.spare.remaining("konnector", 0, time.Now().Add(time.Hour))
		r.spare.remaining("backend-installation", 1000, time.Now().Add(time.Hour))
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if len(looked) < 300 || len(looked) > 400 {
			t.Errorf("in half an hour with 1000 requests left until the next one it looked at %d", len(looked))
		}
		looked = nil
		r.spare.remaining("backend-installation", 0, time.Now().Add(10*time.Minute))
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if len(looked) > 1 {
			t.Errorf("with nothing left it looked at %d", len(looked))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(looked) < 50 {
			t.Errorf("once the limit began again it looked at %d", len(looked))
		}
		cancel()
		synctest.Wait()
	})
}
