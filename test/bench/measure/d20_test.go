package measure

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fsck"
)

// claimsVariable says how many claims go through in the slow test, if not
// 10,000, which take some minutes.
const claimsVariable = "GITBIND_D20_CLAIMS"

func TestD20_SlowThousandsOfClaimsThroughAllOfIt(t *testing.T) {
	env.Slow(t)
	n := 10_000
	if v := os.Getenv(claimsVariable); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 1 {
			t.Fatalf("%s=%q is no number of claims", claimsVariable, v)
		}
	}
	throughAllOfIt(t, n)
}

func TestD20_HundredsOfClaimsThroughAllOfIt(t *testing.T) { throughAllOfIt(t, 500) }

// throughAllOfIt sends claims: everything arrives, everything comes back, nothing
// else happens, and nobody grows out of bounds.
func throughAllOfIt(t *testing.T, n int) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real API servers: not with -short")
	}
	s, err := stage.Start(t.Context(), stage.Options{Namespaces: namespaces, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Stage: s, Options: Options{Progress: t.Output()}, size: n}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.logs())
		}
		// The test's own context is done by now.
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	before, err := r.count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.burst(t.Context(), stage.Subject, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d claims were on the control plane after %s, and their statuses back after %s", n, b.up, b.round)
	if err := r.Quiet(t.Context(), still); err != nil {
		t.Fatal(err)
	}
	after, err := r.count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for side, eyes := range map[string]*stage.Eyes{"the app cluster": s.SeenApp, "the control plane": s.SeenControl} {
		if got := eyes.Count(stage.Subject); got != n+namespaces {
			t.Errorf("%s has %d claims, want %d", side, got, n+namespaces)
		}
	}
	for branch, want := range map[string]int{"main": n + namespaces, "status": n + namespaces} {
		out, err := stage.Git(t.Context(), r.Repository(), "ls-tree", "-r", "--name-only", branch)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out+"\n", "/claims/"); got != want {
			t.Errorf("branch %s has %d claims, want %d", branch, got, want)
		}
	}
	if err := fsck.Check(t.Context(), r.Repository(), "--full", "--strict"); err != nil {
		t.Error(err)
	}
	// A claim takes a base and a status; a machine that is slow may tell of a
	// claim before its service runs.
	c := after.since(before)
	app, control := c.writes()
	if each := app/float64(n) - 1; each > 4 {
		t.Errorf("%g writes in the app cluster for each claim: %v", each, c.app)
	}
	if control != float64(2*n) {
		t.Errorf("%g writes on the control plane, want one apply and one status for each of %d claims: %v", control, n, c.control)
	}
	// Alone they would be a commit of main for each claim, and two or more of status. How
	// many travel together depends on how fast they come, and that on the machine:
	// TestManyAtOnceTravelTogether shows it, where all come during one push.
	if c.main >= n || c.status >= 2*n {
		t.Errorf("%d commits on main and %d on status: none travelled with another", c.main, c.status)
	}
	for _, p := range r.measured() {
		const most = 600 << 20
		if u := after.usages[p.Name]; u.Peak > most {
			t.Errorf("%s took %d MiB", p.Name, u.Peak>>20)
		}
		if log, err := os.ReadFile(p.LogPath); err != nil || bytes.Contains(log, []byte(`"level":"error"`)) {
			t.Errorf("%s has logged errors (%v)", p.Name, err)
		}
	}
	if s.Konnector(env.App).PID() == 0 || s.Bridge.PID() == 0 {
		t.Error("an agent has ended")
	}
}
