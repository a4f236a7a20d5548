package ui

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

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
		h := &handler{Config: Config{Git: git}, read: newRecent[string, *answer](keepAnswers), surveys: newRecent[string, *survey](keepSurveys)}
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
		if len(h.surveying.queues) > 0 {
			t.Error("a turn that nobody takes is remembered")
		}
	}
}
