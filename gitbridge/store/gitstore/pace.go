package gitstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gitbind.dev/gitbridge/store/internal/branch"
)

const (
	// restFirst and restMost bound the pause after requests that failed.
	restFirst = 100 * time.Millisecond
	restMost  = 5 * time.Second
	// restWait is how long callers are kept waiting. When the remote asked for
	// more, they are told instead.
	restWait = 10 * time.Second
	// restAsked bounds what a remote can ask for.
	restAsked = 10 * time.Minute
	// githubPushes is the budget for github.com, which counts each push against
	// limits that it does not tell.
	githubPushes = 6
)

// pace is how often one repository is asked, and by how many writers at once.
// All who open it in this process share one: a second one would spend the budget
// again, and push against the first.
type pace struct {
	mu sync.Mutex
	// budget is that of pushes; nil for no limit.
	budget *rate.Limiter
	// delay is the last pause after a failure, until its end. It is over at once
	// when a request succeeds.
	delay time.Duration
	until time.Time
	over  chan struct{}
	// asked is until when the remote asked to be left alone.
	asked time.Time
	// writing are the branches that are written, and how many want to.
	writing map[string]*turn
}

type turn struct {
	held chan struct{}
	want int
}

// paces are those of all repositories that this process opened. They are few,
// small, and kept: who opens a repository again has no new budget.
var paces = struct {
	mu    sync.Mutex
	byURL map[string]*pace
}{byURL: map[string]*pace{}}

// paceOf gives the pace of a repository. The lowest budget that anybody asked
// for counts.
func paceOf(u *url.URL, pushesPerMinute int) *pace {
	paces.mu.Lock()
	defer paces.mu.Unlock()
	name := canonical(u)
	p := paces.byURL[name]
	if p == nil {
		p = &pace{over: make(chan struct{}), writing: map[string]*turn{}}
		paces.byURL[name] = p
	}
	if pushesPerMinute == 0 && strings.EqualFold(u.Hostname(), "github.com") {
		pushesPerMinute = githubPushes
	}
	if n := pushesPerMinute; n > 0 && (p.budget == nil || n < p.budget.Burst()) {
		p.budget = rate.NewLimiter(rate.Every(time.Minute/time.Duration(n)), n)
	}
	return p
}

// canonical is one name for all ways to write a repository's URL.
func canonical(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port + strings.TrimSuffix(path.Clean("/"+u.Path), ".git")
}

// branchPace is the pace of one branch.
type branchPace struct {
	*pace
	name string
}

var _ branch.Pace = branchPace{}

// Lock waits until nobody else in this process writes the branch.
func (p branchPace) Lock(ctx context.Context) (unlock func(), err error) {
	p.mu.Lock()
	t := p.writing[p.name]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		p.writing[p.name] = t
	}
	t.want++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.want--; t.want == 0 {
			delete(p.writing, p.name)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// Rest waits while the remote is to be left alone.
func (p *pace) Rest(ctx context.Context) error {
	for {
		p.mu.Lock()
		until, asked, over := p.until, p.asked, p.over
		p.mu.Unlock()
		if err := p.obey(ctx, asked); err != nil {
			return err
		}
		rest := time.Until(until)
		if rest <= 0 {
			return nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-over:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// obey waits for what the remote asked for, or says that it is too long.
func (p *pace) obey(ctx context.Context, asked time.Time) error {
	rest := time.Until(asked)
	switch {
	case rest <= 0:
		return nil
	case rest > restWait:
		return fmt.Errorf("the remote wants no requests before %s", asked.UTC().Format(time.RFC3339))
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Budget waits until a push is within the budget. It spends nothing: an edit
// may turn out to change nothing.
func (p *pace) Budget(ctx context.Context) error {
	for {
		p.mu.Lock()
		budget := p.budget
		p.mu.Unlock()
		if budget == nil {
			return nil
		}
		lack := 1 - budget.Tokens()
		if lack <= 0 {
			return nil
		}
		timer := time.NewTimer(time.Duration(lack/float64(budget.Limit())*float64(time.Second)) + time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// spend notes a push. Two branches that saw the same last token go into debt.
func (p *pace) spend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget != nil {
		p.budget.Reserve()
	}
}

// failed notes a request that had no answer. What fails while a pause lasts is
// part of the same trouble.
func (p *pace) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.until) {
		return
	}
	p.delay = min(max(2*p.delay, restFirst), restMost)
	// Those who lost the same host must not come back in step.
	p.until = time.Now().Add(time.Duration(float64(p.delay) * (0.5 + 0.5*rand.Float64())))
}

// reached notes an answer.
func (p *pace) reached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delay == 0 {
		return
	}
	p.delay, p.until = 0, time.Time{}
	close(p.over)
	p.over = make(chan struct{})
}

// noAnswer notes a request that failed, unless its caller gave up: a remote
// that falls silent is this side's word, too.
func (p *pace) noAnswer(ctx context.Context) {
	if cause := context.Cause(ctx); cause == nil || errors.Is(cause, errSilent) {
		p.failed()
	}
}

func (p *pace) askedUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// leave notes that the remote asked to be left alone for some time.
func (p *pace) leave(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(min(d, restAsked)); until.After(p.asked) {
		p.asked = until
	}
}

// retryAfter is what an answer says about when to come back.
func retryAfter(res *http.Response, now time.Time) (time.Duration, bool) {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	value := res.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}
