package store

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// FollowOptions say what to follow, and how.
type FollowOptions struct {
	Branch Branch
	// Wake, if not nil, gives a hint that the branch moved, with its new head
	// or "" if that is not known. Tell writes to it.
	Wake <-chan Hash
	// Poll is about how often to look without being woken. Default: one minute.
	Poll time.Duration
	// OnChange is called with the snapshot of the last call that returned nil
	// (nil at first) and a newer one, also for what this process itself wrote, and
	// with the same one where the branch was set back from that.
	// The first call comes even if the branch does not exist: new is then
	// empty. When it returns an error it is called again later, with the same
	// old.
	OnChange func(ctx context.Context, old, new *Snapshot) error
	// Again, if not nil, reports whether OnChange is to be called although nothing is new.
	Again func() bool
	// OnError, if not nil, is told what does not work, at every try, and nil
	// when it works (again). A LimitError that stays is not tried again before Poll, and
	// followed by a call of OnChange when the branch can be read again, also if it
	// is where it was before.
	OnError func(error)
}

// Tell puts a hint into a channel of capacity 1, in the place of one that
// nobody took: the newest one counts. It does not block.
func Tell(wake chan Hash, hint Hash) {
	for {
		select {
		case wake <- hint:
			return
		default:
		}
		select {
		case <-wake:
		default:
		}
	}
}

// Delays between tries that fail.
const (
	followRetry    = time.Second
	followRetryMax = 15 * time.Second
)

// Follow keeps calling OnChange for what happens on a branch until ctx ends.
func Follow(ctx context.Context, o FollowOptions) {
	if o.Poll == 0 {
		o.Poll = time.Minute
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.Again == nil {
		o.Again = func() bool { return false }
	}
	f := follower{FollowOptions: o}
	retry := backoff.ExponentialBackOff{InitialInterval: followRetry, Multiplier: 2, RandomizationFactor: 0.3, MaxInterval: followRetryMax}
	var hint Hash
	// Many followers must not poll in step.
	poll := func() time.Duration { return time.Duration(float64(o.Poll) * (0.8 + 0.4*rand.Float64())) }
	for ctx.Err() == nil {
		switch err := f.look(ctx, hint); {
		case ctx.Err() != nil:
			return
		case LastingLimit(err) != nil:
			o.OnError(err)
			f.healthy, f.called = false, false
			hint = f.wait(ctx, poll(), followRetry)
		case err != nil:
			o.OnError(err)
			f.healthy = false
			hint = f.wait(ctx, retry.NextBackOff(), followRetry)
		default:
			if !f.healthy {
				o.OnError(nil)
				f.healthy = true
			}
			retry.Reset()
			hint = f.wait(ctx, poll(), 0)
		}
	}
}

type follower struct {
	FollowOptions
	seen *Snapshot
	// called says that OnChange was called with seen, and took it.
	called  bool
	healthy bool
}

// look fetches, and passes on what is new.
func (f *follower) look(ctx context.Context, hint Hash) error {
	known := f.Branch.Snapshot().Head()
	snap, err := f.Branch.FetchTip(ctx, hint)
	if err != nil {
		return err
	}
	if f.called && snap.Head() == f.seen.Head() && snap.Head() == known && !f.Again() {
		return nil
	}
	f.called = false
	if err := f.OnChange(ctx, f.seen, snap); err != nil {
		return err
	}
	f.seen, f.called = snap, true
	return nil
}

// wait returns when time is up, or when woken, but not before some time: who
// wakes often must not turn failures into a storm.
func (f *follower) wait(ctx context.Context, atMost, atLeast time.Duration) (hint Hash) {
	start := time.Now()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ""
	case <-timer.C:
		return ""
	case h, ok := <-f.Wake:
		if !ok {
			f.Wake = nil
			return f.wait(ctx, atMost, atLeast)
		}
		hint = h
	}
	if rest := atLeast - time.Since(start); rest > 0 {
		timer.Reset(rest)
		select {
		case <-ctx.Done():
		case <-timer.C:
			// What came meanwhile is newer.
			select {
			case hint = <-f.Wake:
			default:
			}
		}
	}
	return hint
}
