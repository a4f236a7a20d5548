package gitstore

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

func newThrottle() *throttle {
	return &throttle{over: make(chan struct{}), writing: map[string]*branchLock{}}
}

func TestOneRepositoryHasOneNameWhicheverWayItsURLIsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{"https://example.org/a/b.git", "https://EXAMPLE.org:443/a/b", true},
		{"https://example.org/a/b.git", "https://example.org/a//x/../b.git/", true},
		{"http://example.org/a", "http://example.org:80/a", true},
		{"http://example.org/a", "https://example.org/a", false},
		{"https://example.org/a", "https://example.org:8443/a", false},
		{"https://example.org/a/b", "https://example.org/a/B", false},
		{"https://[::1]/a", "https://[::1]:443/a.git", true},
	} {
		a, errA := url.Parse(c.a)
		b, errB := url.Parse(c.b)
		if errA != nil || errB != nil || (canonical(a) == canonical(b)) != c.equal {
			t.Errorf("%s and %s: %q and %q", c.a, c.b, canonical(a), canonical(b))
		}
	}
}

func TestTheLowestBudgetCountsAndGitHubHasOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url  string
		asks []int
		want rate.Limit
	}{
		"none":                    {"https://example.org/none", []int{0}, 0},
		"one":                     {"https://example.org/one", []int{60}, 1},
		"the lower one":           {"https://example.org/lower", []int{120, 60, 0, 600}, 1},
		"github.com's":            {"https://github.com/a/b", []int{0}, 0.1},
		"another for github.com":  {"https://GitHub.com/a/c", []int{30}, 0.5},
		"none for github.com":     {"https://github.com/a/d", []int{-1}, 0},
		"not github.com by looks": {"https://github.com.example.org/a/b", []int{0}, 0},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		var p *throttle
		for _, n := range c.asks {
			p = throttleOf(u, n)
		}
		var got rate.Limit
		if p.budget != nil {
			got = p.budget.Limit()
		}
		if got != c.want {
			t.Errorf("%s: %v pushes per second, want %v", name, got, c.want)
		}
	}
}

func TestPausesGrowWhileAHostIsDownAndEndWhenItIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newThrottle()
		tries := 0
		start := time.Now()
		for time.Since(start) < 10*time.Minute {
			if err := p.WaitBackoff(t.Context()); err != nil {
				t.Fatal(err)
			}
			tries++
			// What else fails at the same time does not make it longer.
			p.noteFailure()
			p.noteFailure()
		}
		if tries < 120 || tries > 260 {
			t.Errorf("%d tries in 10 minutes", tries)
		}
		start = time.Now()
		go func() {
			time.Sleep(time.Second)
			p.noteAnswer()
		}()
		if err := p.WaitBackoff(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("it went on %s after the host was back, %v", time.Since(start)-time.Second, err)
		}
		start = time.Now()
		p.noteFailure()
		if err := p.WaitBackoff(t.Context()); err != nil || time.Since(start) > minBackoff {
			t.Errorf("a pause of %s after one failure, %v", time.Since(start), err)
		}
		p.noteFailure()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p.WaitBackoff(ctx) == nil {
			t.Error("it waits for nobody")
		}
	})
}

func TestARemoteThatAsksToBeLeftAloneIsLeftAlone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		status int
		header string
		want   time.Duration
		ok     bool
	}{
		{429, "7", 7 * time.Second, true},
		{503, "Thu, 01 Jan 2026 00:01:00 GMT", time.Minute, true},
		{503, "Wed, 31 Dec 2025 00:01:00 GMT", 0, true},
		{503, "", 0, false},
		{503, "soon", 0, false},
		{503, "-5", 0, false},
		{500, "7", 0, false},
		{200, "7", 0, false},
	} {
		got, ok := retryAfter(&http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}}}, now)
		if got != c.want || ok != c.ok {
			t.Errorf("%d %q: %s, %v", c.status, c.header, got, ok)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p := newThrottle()
		p.noteRetryAfter(3 * time.Second)
		p.noteRetryAfter(time.Second)
		start := time.Now()
		if err := p.WaitBackoff(t.Context()); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("it waited %s, %v", time.Since(start), err)
		}
		// An hour is more than anybody waits for, and more than is believed.
		p.noteRetryAfter(time.Hour)
		start = time.Now()
		if err := p.WaitBackoff(t.Context()); err == nil || time.Since(start) > 0 {
			t.Errorf("it waited %s, %v", time.Since(start), err)
		}
		time.Sleep(maxRetryAfter)
		if err := p.WaitBackoff(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestWritersOfABranchTakeTurnsAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newThrottle()
		a, b := branchThrottle{p, "main"}, branchThrottle{p, "status"}
		unlock, err := a.LockBranch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		other, err := b.LockBranch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { _, err := a.LockBranch(ctx); gaveUp <- err }()
		got := make(chan func(), 1)
		go func() {
			unlock, _ := a.LockBranch(t.Context())
			got <- unlock
		}()
		synctest.Wait()
		cancel()
		if err := <-gaveUp; err == nil {
			t.Error("two write one branch")
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Error("two write one branch")
		}
		unlock()
		(<-got)()
		other()
		if len(p.writing) > 0 {
			t.Errorf("%d branches are kept", len(p.writing))
		}
	})
}
