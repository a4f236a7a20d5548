package session

import (
	"context"
	"sync"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/internal/progress"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// Checkpoint is what must outlive the process: it is kept in the ClusterBinding.
type Checkpoint struct {
	// Accepted is the last commit of main that was accepted, as far as it was
	// saved; "" before the first contact. Begun is the one from which main is followed:
	// all that were accepted since descend from it.
	Accepted, Begun store.Hash
	// Epoch is that of the branch status, and Sequence one that it has reached or leaps beyond.
	Epoch    string
	Sequence int64
	// Removals are those that passed lately.
	Removals []breaker.Removal
}

// saveInterval is how long an accepted commit may be kept unsaved, as long as nothing
// depends on it.
const saveInterval = time.Minute

// Checkpoints have a checkpoint saved before something is done that depends on it.
type Checkpoints struct {
	write    func(context.Context, Checkpoint) error
	status   *statusbranch.Branch
	view     func() View
	removals *Removals

	// mu is held while a checkpoint is written.
	mu   sync.Mutex
	last Checkpoint
	// begun is last's, or its accepted commit where it names none.
	begun store.Hash
	// epoch is to be saved with the next commit that is accepted.
	epoch string
	// saved is up to where main was saved, and changes of removals.
	saved   progress.Generation
	changes int
	later   *time.Timer
}

// Save saves a commit of main, or a later one, before anything is done that cannot be
// undone.
func (c *Checkpoints) Save(ctx context.Context, g progress.Generation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	view := c.view()
	if _, changes := c.removals.passedLately(); c.saved >= g && c.changes == changes {
		return nil
	}
	if err := c.save(ctx, view.Main.Head(), c.begun); err != nil {
		return err
	}
	c.saved = view.Generation
	return nil
}

// begin saves from where main is followed.
func (c *Checkpoints) begin(ctx context.Context, accepted store.Hash) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.save(ctx, accepted, accepted)
}

// Begun is the commit from which main is followed, "" before the first contact.
func (c *Checkpoints) Begun() store.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun
}

func (c *Checkpoints) save(ctx context.Context, accepted, begun store.Hash) error {
	removals, changes := c.removals.passedLately()
	now := Checkpoint{Accepted: accepted, Begun: begun, Epoch: c.epoch, Sequence: c.status.Sequence(), Removals: removals}
	if now.Epoch == c.last.Epoch {
		now.Sequence = max(now.Sequence, c.last.Sequence)
	}
	if now.Accepted == c.last.Accepted && now.Begun == c.last.Begun && now.Epoch == c.last.Epoch && changes == c.changes {
		return nil
	}
	if err := c.write(ctx, now); err != nil {
		return err
	}
	c.last, c.begun, c.changes = now, begun, changes
	return nil
}

// step is how far a leap goes: more than the commits that are made between two times at
// which the sequence is saved.
const step = 1 << 20

// leap gives a sequence that is above all that were given out, for a branch that was set
// back: others may have seen what was written since, and is not known here. It is saved
// before anything is written. So the next process leaps, too, where the branch is given
// back what it lost.
func (c *Checkpoints) leap(ctx context.Context, known int64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.last
	now.Sequence = max(now.Sequence, known) + step
	if now.Epoch == "" || now.Epoch != c.epoch && c.epoch != "" {
		// Another epoch's sequences are no use to the next process, nor is one's that is
		// not saved yet.
		return now.Sequence, nil
	}
	if err := c.write(ctx, now); err != nil {
		return 0, err
	}
	c.last = now
	return now.Sequence, nil
}

func (c *Checkpoints) saveLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.later == nil {
		c.later = time.AfterFunc(saveInterval, func() {
			c.mu.Lock()
			c.later = nil
			c.mu.Unlock()
			c.saveNewest(context.Background())
		})
	}
}

// saveNewest saves how far main was followed. Without it the next
// process looks at more of main's history, so an error is of no consequence.
func (c *Checkpoints) saveNewest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if view := c.view(); view.Main != nil && !view.Held {
		_ = c.Save(ctx, view.Generation)
	}
}

func (c *Checkpoints) close(ctx context.Context) {
	c.mu.Lock()
	if c.later != nil {
		c.later.Stop()
	}
	c.mu.Unlock()
	c.saveNewest(ctx)
}

// Last is what is saved.
func (c *Checkpoints) Last() Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// open says in which epoch status is written. It is saved with the next commit of main
// that is accepted.
func (c *Checkpoints) open(epoch string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch, c.saved = epoch, 0
}
