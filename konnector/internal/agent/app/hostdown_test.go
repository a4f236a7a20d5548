package app_test

import (
	"fmt"
	"testing"
	"time"

	"gitbind.dev/test/env"
)

func TestD7_GitHostDownUnderLoad(t *testing.T) {
	t.Parallel()
	testHostDown(t, 5*time.Second)
}

// Ten minutes are scaled to half a minute: the waits between tries have reached
// their longest by then.
func TestD7_SlowGitHostDownForLong(t *testing.T) {
	env.Slow(t)
	testHostDown(t, 30*time.Second)
}

// testHostDown lets people go on creating and changing claims while the Git host is
// down.
func testHostDown(t *testing.T, outage time.Duration) {
	w := newLoop(t)
	const before, during = 10, 30
	name := func(i int) string { return fmt.Sprint("c", i) }
	for i := range before {
		w.apply(name(i), spec("small"))
	}
	for i := range before {
		w.committed(name(i))
	}

	w.host.setDown(true)
	asked, start := w.host.Requests.Load(), time.Now()
	want := map[string]string{}
	// None is what is committed, which needs no host to be so.
	plans := []string{"medium", "big"}
	// A slow machine takes longer to come by all of them.
	for i := 0; time.Since(start) < outage || len(want) < before+during; i++ {
		if n := before + i; n < before+during {
			w.apply(name(n), spec("small"))
			want[name(n)] = "small"
		}
		// Claims of before, and new ones.
		n := name(i % min(before+i+1, before+during))
		want[n] = plans[i%2]
		w.setSpec(n, want[n], "plan")
		time.Sleep(outage / 100)
	}
	for n := range want {
		w.conditionIs(n, "Committed", "RepositoryUnreachable")
		if s, _, _ := condition(w.get(n), "Committed"); s != "False" {
			t.Errorf("%s says that it is committed: %s", n, s)
		}
	}
	w.connectionIs("RepositoryUnreachable")
	n, took := w.host.Requests.Load()-asked, time.Since(start)
	t.Logf("%d requests in %s", n, took.Round(time.Second))
	if most := mostRequests(took); n > most {
		t.Errorf("%d requests in %s to a host that is down, want at most %d", n, took, most)
	}

	w.host.setDown(false)
	start = time.Now()
	for n, p := range want {
		w.fileIs(n, plan(p))
	}
	t.Logf("all on main %s after it was back", time.Since(start).Round(time.Millisecond))
	for n, p := range want {
		w.committed(n)
		w.objectIs(n, plan(p))
	}
	w.connectionIs("Connected")
	w.host.check()
}

// mostRequests is how many requests a host that is down gets at most: after a failure
// everybody pauses, each time twice as long, up to five seconds and half of that with
// the jitter. Then each tries once: who follows main, who follows status, who pushes.
func mostRequests(outage time.Duration) int64 {
	const callers = 3
	most := int64(callers)
	for pause := 50 * time.Millisecond; outage > 0; pause = min(2*pause, 2500*time.Millisecond) {
		outage -= pause
		most += callers
	}
	return most
}
