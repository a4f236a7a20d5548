package app

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// TestEachCopyIsLookedAtWithoutAWebhook has a host that is away for a while, and a cluster that comes.
func TestEachCopyIsLookedAtWithoutAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looked []string
		var away error
		clusters := []string{"a", "b", "c"}
		r := &repositories{look: func(cluster string) { looked = append(looked, cluster) }, ready: func(context.Context) error { return away }}
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
		cancel()
		synctest.Wait()
	})
}
