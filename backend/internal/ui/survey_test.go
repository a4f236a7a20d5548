package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/lru"

	"gitbind.dev/backend/internal/githost"
)

// crowd is a repository of which nothing is listed before all have asked for it.
type crowd struct {
	githost.History
	heads sync.WaitGroup
	lists atomic.Int32
	fails error
}

func (c *crowd) Head(context.Context, string, string) (string, error) {
	c.heads.Done()
	return "c", nil
}

func (c *crowd) List(context.Context, string, string, string, func(string) bool) ([]githost.File, error) {
	c.heads.Wait()
	c.lists.Add(1)
	return nil, c.fails
}

func (c *crowd) Blobs(context.Context, string, []string, func(string, []byte) error) error {
	return nil
}

// TestManyViewersCostOneSurvey lets many people look at the same cluster at once.
func TestManyViewersCostOneSurvey(t *testing.T) {
	const viewers = 5
	for _, c := range []struct {
		fails error
		lists int32
	}{{nil, 3}, {githost.ErrTooMany, 1}} {
		git := &crowd{fails: c.fails}
		git.heads.Add(2 * viewers)
		h := &handler{Config: Config{Git: git}, read: lru.New(keepAnswers), surveys: lru.New(keepSurveys)}
		errs := make([]error, viewers)
		var all sync.WaitGroup
		for i := range viewers {
			all.Go(func() { _, errs[i] = h.look(t.Context(), prod) })
		}
		all.Wait()
		if got := git.lists.Load(); got != c.lists {
			t.Errorf("%d lists, want %d", got, c.lists)
		}
		if failed := slices.ContainsFunc(errs, func(err error) bool { return (err != nil) != (c.fails != nil) }); failed {
			t.Errorf("answers %v, want each with %v", errs, c.fails)
		}
	}
}

// slow is a repository at a commit, of which list is a listing of main.
type slow struct {
	githost.History
	commit string
	list   func(ctx context.Context) error
	lists  int
}

func (s *slow) Head(_ context.Context, _, branch string) (string, error) {
	if branch == "status" {
		return "", githost.ErrNotFound
	}
	return s.commit, nil
}

func (s *slow) List(ctx context.Context, _, _, _ string, _ func(string) bool) ([]githost.File, error) {
	s.lists++
	return nil, s.list(ctx)
}

func (s *slow) Blobs(context.Context, string, []string, func(string, []byte) error) error {
	return nil
}

// lasting takes a while.
func lasting(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// viewer looks for a while at most; the channel then has why there is no survey,
// or its commit.
func viewer(t *testing.T, h *handler, timeout time.Duration) <-chan string {
	said := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		s, err := h.look(ctx, prod)
		if err != nil {
			said <- err.Error()
			return
		}
		said <- s.main
	}()
	synctest.Wait()
	return said
}

func surveyor(git *slow) *handler {
	return &handler{Config: Config{Git: git}, read: lru.New(keepAnswers), surveys: lru.New(keepSurveys)}
}

func wantSaid(t *testing.T, who string, said <-chan string, want string) {
	t.Helper()
	if got := <-said; !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", who, got, want)
	}
}

func TestTheFirstViewerLeavesAndTheSurveyIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		git := &slow{commit: "c1", list: lasting(10 * time.Second)}
		h := surveyor(git)
		first := viewer(t, h, surveyTime)
		second := viewer(t, h, pageTimeout)
		begin := time.Now()
		wantSaid(t, "who leaves", first, context.DeadlineExceeded.Error())
		if waited := time.Since(begin); waited != surveyTime {
			t.Errorf("who leaves waited %s", waited)
		}
		wantSaid(t, "who stays", second, "c1")
		wantSaid(t, "who comes later", viewer(t, h, pageTimeout), "c1")
		if git.lists != 1 {
			t.Errorf("%d surveys", git.lists)
		}
	})
}

func TestWhoComesAfterAPushSeesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		git := &slow{commit: "c1", list: lasting(10 * time.Second)}
		h := surveyor(git)
		before := viewer(t, h, pageTimeout)
		git.commit = "c2"
		wantSaid(t, "after the push", viewer(t, h, pageTimeout), "c2")
		wantSaid(t, "before it", before, "c1")
	})
}

func TestASurveyThatFailsIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		git := &slow{commit: "c1"}
		h := surveyor(git)
		const trouble = "cannot be read just now"
		git.list = lasting(time.Hour)
		hangs := viewer(t, h, time.Hour)
		begin := time.Now()
		wantSaid(t, "a host that hangs", hangs, trouble)
		if waited := time.Since(begin); waited != pageTimeout {
			t.Errorf("waited %s for a host that hangs", waited)
		}
		git.list = func(context.Context) error { return errors.New("exit status 128") }
		wantSaid(t, "a host that fails", viewer(t, h, pageTimeout), trouble)
		git.list = func(context.Context) error { panic("of a decoder") }
		wantSaid(t, "a panic", viewer(t, h, pageTimeout), "survey "+prod+": of a decoder")
		git.list = lasting(0)
		wantSaid(t, "all is well", viewer(t, h, pageTimeout), "c1")
	})
}
