package repository

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// Checkpoint is what must outlive the process, for nothing to be deleted that no person
// deleted. It is kept in Connection.status. Its slices are replaced, never changed.
type Checkpoint struct {
	// Accepted is the last commit of main that was accepted; "" for first contact.
	Accepted store.Hash
	// Begun is the commit from which main counts since a person said so; "" where
	// it was followed from first contact on.
	Begun store.Hash
	// Observed is how far the branch status was seen to come.
	Observed guard.Observed
	// Removals are those that passed lately without an approval.
	Removals []breaker.Removal
	// Moves are files that went from one path to another.
	Moves []Move
	// Approved are the approvals that were acted on last.
	Approved Approved
}

// Move is a claim's file that went from one path to another. With the folder of a binding's
// claims as both, which ends in a slash, it is each of its files that is gone.
type Move struct{ From, To string }

func (m Move) isOfAll() bool { return m.From == m.To }

// isOf reports whether it is one of a claim's file.
func (m Move) isOf(path string) bool {
	return m.From == path || m.isOfAll() && strings.HasPrefix(path, m.From)
}

// isThere reports whether a head of main has the file still that it went to.
func (m Move) isThere(main *store.Snapshot) bool {
	_, there := main.Entry(m.To)
	return there || m.isOfAll()
}

func (m Move) binding() string {
	if key, err := contract.ParsePath(m.From); err == nil {
		return key.Binding
	}
	return path.Base(path.Dir(path.Dir(m.From)))
}

// Approved are approvals as they were acted on.
type Approved struct {
	// Main is what was approved as a new begin.
	Main string
	// Removals is the commit whose removals were approved, and RemovalsUpTo when
	// the last delete of an object began that was approved with them, by the API
	// server's clock.
	Removals     string
	RemovalsUpTo time.Time
}

func (a Approved) removals() guard.Approval {
	return guard.Approval{Commit: a.Removals, UpTo: a.RemovalsUpTo}
}

// Checkpoints keep the newest checkpoint, and have it saved before something is done
// that depends on it.
type Checkpoints struct {
	write func(context.Context, Checkpoint) error

	// saving is held while a checkpoint is written. It guards closed: nothing is saved any more.
	saving sync.Mutex
	closed bool

	mu            sync.Mutex
	now           Checkpoint
	savedObserved guard.Observed
	// version grows with what must be saved.
	version, savedVersion int64
}

func newCheckpoints(last Checkpoint, write func(context.Context, Checkpoint) error) *Checkpoints {
	return &Checkpoints{write: write, now: last, savedObserved: last.Observed}
}

func (c *Checkpoints) get() Checkpoint {
	now, _, _ := c.Unsaved()
	return now
}

// Unsaved returns what is to be saved, under a number that grows with it, and whether
// some of it is not saved yet.
func (c *Checkpoints) Unsaved() (now Checkpoint, version int64, unsaved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.version, c.version > c.savedVersion
}

// Saved is told that a version was saved by others.
func (c *Checkpoints) Saved(version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.savedVersion = max(c.savedVersion, version)
}

// Save makes sure that what was accepted is saved: before anything is deleted because
// of it. Those who wait while another one saves are served together by the next save.
func (c *Checkpoints) Save(ctx context.Context) error {
	_, want, _ := c.Unsaved()
	c.saving.Lock()
	defer c.saving.Unlock()
	if c.closed {
		return ErrSuspended
	}
	c.mu.Lock()
	now, version, saved := c.now, c.version, c.savedVersion
	c.mu.Unlock()
	if saved >= want {
		return nil
	}
	if err := c.write(ctx, now); err != nil {
		return fmt.Errorf("save what was accepted: %w", err)
	}
	c.mu.Lock()
	c.savedObserved = now.Observed
	c.mu.Unlock()
	c.Saved(version)
	return nil
}

// Close saves all, also what is not worth a write of its own, and has Save refuse from then on:
// what comes next begins with what is saved now, and would be overwritten.
func (c *Checkpoints) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.now.Observed != c.savedObserved {
		c.version++
	}
	c.mu.Unlock()
	if err := c.Save(ctx); err != nil {
		return err
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	c.closed = true
	return nil
}

// note changes what is to be saved; it is saved before long, or by Save.
func (c *Checkpoints) note(change func(*Checkpoint)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.now)
	c.version++
}

// decide changes what is to be saved, and saves it before it counts.
func (c *Checkpoints) decide(ctx context.Context, change func(*Checkpoint)) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	if c.closed {
		return ErrSuspended
	}
	now, version, _ := c.Unsaved()
	change(&now)
	if err := c.write(ctx, now); err != nil {
		return fmt.Errorf("save what was decided: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.now)
	c.savedVersion = max(c.savedVersion, version)
	return nil
}

// observe judges a state of the branch status, and notes how far it has come. That is
// worth a write of its own only when the branch is a new one: an older sequence in the
// checkpoint of the next process finds fewer backups out, and no service goes for that.
func (c *Checkpoints) observe(now guard.Observed) (known guard.Observed, v guard.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = c.now.Observed
	v = guard.JudgeStatus(known, now)
	if v.IsHeld() || now.Epoch == "" {
		return known, v
	}
	if now.Epoch != known.Epoch {
		c.version++
	}
	c.now.Observed = now
	return known, v
}
