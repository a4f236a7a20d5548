package memory_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/gitbridge/store/memory"
)

const mebi = 1 << 20

func take(t *testing.T, c *memory.Claim, bytes int64) {
	t.Helper()
	if err := c.Take(bytes); err != nil {
		t.Errorf("take %d: %v", bytes, err)
	}
}

func TestH2_OneReadAtATimeMayHaveMoreThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(10 * mebi)
		_, first := b.Claim(t.Context())
		_, second := b.Claim(t.Context())
		take(t, first, 6*mebi)
		take(t, second, 4*mebi)
		take(t, second, 30*mebi) // the one that may
		var ended atomic.Bool
		go func() {
			take(t, first, mebi)
			ended.Store(true)
		}()
		synctest.Wait()
		if ended.Load() {
			t.Error("two reads have more than there is")
		}
		// A small one waits for nobody.
		_, small := b.Claim(t.Context())
		take(t, small, memory.Small)
		second.Release()
		synctest.Wait()
		if !ended.Load() {
			t.Error("it waits though there is room")
		}
		first.Release()
		small.Release()
		_, all := b.Claim(t.Context())
		take(t, all, 10*mebi)
		all.Release()
	})
}

func TestWhoHasLeastGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(10 * mebi)
		_, large := b.Claim(t.Context())
		_, much := b.Claim(t.Context())
		_, little := b.Claim(t.Context())
		take(t, much, 8*mebi)
		take(t, little, 2*mebi)
		take(t, large, mebi)
		order := make(chan string, 2)
		for name, c := range map[string]*memory.Claim{"much": much, "little": little} {
			go func() {
				take(t, c, mebi)
				order <- name
			}()
			synctest.Wait()
		}
		large.Release()
		synctest.Wait()
		if len(order) != 1 || <-order != "little" {
			t.Error("who has more went first")
		}
		little.Release()
		if got := <-order; got != "much" {
			t.Errorf("then %s", got)
		}
		much.Release()
	})
}

// A read that is slow keeps the others waiting only so long, and one that waits gives
// up: what it has is wanted, too.
func TestH2_ASlowReadIsEndedWhenOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBudget(mebi)
		ctx, slow := b.Claim(t.Context())
		take(t, slow, 20*mebi)
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Error("it is ended, and nobody waits")
		}
		_, other := b.Claim(t.Context())
		take(t, other, mebi)
		done := make(chan error)
		go func() { done <- other.Take(mebi) }()
		<-ctx.Done()
		if err := slow.Take(1); !errors.Is(context.Cause(ctx), memory.ErrBusy) || !errors.Is(err, memory.ErrBusy) {
			t.Errorf("it ended with %v", context.Cause(ctx))
		}
		slow.Release()
		if err := <-done; err != nil {
			t.Errorf("who waited: %v", err)
		}
		_, third := b.Claim(t.Context())
		if err := third.Take(mebi); !errors.Is(err, memory.ErrBusy) {
			t.Errorf("who waits in vain: %v", err)
		}
		third.Release()
		gone, cancel := context.WithCancel(t.Context())
		_, fourth := b.Claim(gone)
		cancel()
		if err := fourth.Take(mebi); !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %v", err)
		}
		fourth.Release()
		other.Release()
	})
}

func TestH2_SharesOfManyDoNotAddUp(t *testing.T) {
	s := memory.NewShares(1000)
	var hostile []*memory.Share
	taken := int64(0)
	for range 10 {
		h := s.Share()
		hostile = append(hostile, h)
		if h.Set(400) {
			taken += 400
		}
	}
	if taken > 1000 || taken == 0 {
		t.Errorf("%d of 1000 are taken", taken)
	}
	innocent := s.Share()
	if !innocent.Set(100) {
		t.Error("who has little is refused because of those who have much")
	}
	if innocent.Set(900) {
		t.Error("who wants all has it")
	}
	if !innocent.Set(50) {
		t.Error("who wants less is refused")
	}
	for _, h := range hostile {
		h.Release()
	}
	if !innocent.Set(900) {
		t.Error("what was given back is not there")
	}
	innocent.Force(5000)
	if !innocent.Set(4000) {
		t.Error("less than before is refused")
	}
}
