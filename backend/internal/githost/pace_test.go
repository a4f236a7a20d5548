package githost

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAClusterHasAHostAskedSoOftenAndNoOtherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 5 * time.Second
		p := Pace{Every: every}
		ctx := p.With(t.Context(), "a")
		ask := func(n int) {
			for range n {
				CountRequest(ctx)
			}
		}
		is := func(what, cluster string, want time.Duration) {
			t.Helper()
			if wait := p.Wait(cluster).Round(time.Millisecond); wait != want {
				t.Errorf("%s: waits %s, want %s", what, wait, want)
			}
		}
		ask(paceBurst - 1)
		is("one left", "a", 0)
		// Nobody knows how many the last work takes.
		ask(11)
		is("ten too many", "a", 11*every)
		is("another", "b", 0)
		time.Sleep(11 * every)
		is("then", "a", 0)
		ask(1)
		is("and again", "a", every)
		CountRequest(t.Context()) // for no cluster
		time.Sleep(24 * time.Hour)
		ask(paceBurst)
		is("after a day", "a", every)
		is("another after a day", "b", 0)
	})
	var none *Pace
	if CountRequest(none.With(t.Context(), "a")); none.Wait("a") != 0 {
		t.Error("it waits for no pace")
	}
}
