package gitstore

import (
	"cmp"
	"context"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gitbind.dev/gitbridge/store/internal/branch"
)

// githubPushes is the budget of pushes in a minute for github.com, which counts each
// push against limits that it does not tell.
const githubPushes = 6

// throttle limits how often one repository is asked, and by how many writers at once.
// All who open it in this process share one: a second one would spend the budget
// again, and push against the first.
type throttle struct {
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
	writing map[string]*branchLock
}

type branchLock struct {
	held chan struct{}
	want int
}

// throttles are those of all repositories that this process opened. They are few,
// small, and kept: who opens a repository again has no new budget.
var throttles = struct {
	mu    sync.Mutex
	byURL map[string]*throttle
}{byURL: map[string]*throttle{}}

// throttleOf gives the throttle of a repository. The lowest budget that anybody asked
// for counts.
func throttleOf(u *url.URL, pushesPerMinute int) *throttle {
	throttles.mu.Lock()
	defer throttles.mu.Unlock()
	name := canonical(u)
	p := throttles.byURL[name]
	if p == nil {
		p = &throttle{over: make(chan struct{}), writing: map[string]*branchLock{}}
		throttles.byURL[name] = p
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
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443", "ssh": "22"}[u.Scheme])
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port + strings.TrimSuffix(path.Clean("/"+u.Path), ".git")
}

// branchThrottle is the throttle of one branch.
type branchThrottle struct {
	*throttle
	name string
}

var _ branch.Throttle = branchThrottle{}

// LockBranch waits until nobody else in this process writes the branch.
func (t branchThrottle) LockBranch(ctx context.Context) (unlock func(), err error) {
	t.mu.Lock()
	l := t.writing[t.name]
	if l == nil {
		l = &branchLock{held: make(chan struct{}, 1)}
		t.writing[t.name] = l
	}
	l.want++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.want--; l.want == 0 {
			delete(t.writing, t.name)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// WaitBudget waits until a push is within the budget. It spends nothing: an edit
// may turn out to change nothing.
func (t *throttle) WaitBudget(ctx context.Context) error {
	for {
		t.mu.Lock()
		budget := t.budget
		t.mu.Unlock()
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

// notePush notes a push. Two branches that saw the same last token go into debt.
func (t *throttle) notePush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.budget != nil {
		t.budget.Reserve()
	}
}
