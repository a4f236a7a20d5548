// Package branch is what all implementations of store.Branch have in common:
// what is known of a remote branch, the queue of edits, the commits made of
// them, and what to do when somebody else was first or an answer never came.
// It knows nothing of how a remote is reached.
package branch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/semaphore"

	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/object"
)

// Remote is one branch of a remote. Each method is one exchange with it (Load,
// At and Log may need a second one), and ends in bounded time whatever ctx says.
// One exchange is under way at a time, beside Log, and Head beside Load.
type Remote interface {
	// Head asks where the branch is; "" if it does not exist.
	Head(ctx context.Context) (store.Hash, error)

	// Load gets the snapshot of a tip, and perhaps the commits before it. What
	// known has need not travel again. The error is ErrGone when the branch is
	// elsewhere by now.
	Load(ctx context.Context, tip store.Hash, known *store.Snapshot) (*store.Snapshot, []store.Commit, error)

	// At gets the snapshot of a commit that is not the tip. What known has need not travel
	// again. The error is ErrGone when the remote does not give it.
	At(ctx context.Context, commit store.Hash, known *store.Snapshot) (*store.Snapshot, error)

	// Push moves the branch, or removes it, if it is where it is thought to be. An error that
	// is ErrConflict, ErrRejected, ErrUnauthorized, ErrHostKey or ErrRepositoryNotFound
	// is the remote's answer: nothing was changed. After any other one the outcome
	// is not known.
	Push(ctx context.Context, p Push) error

	// Log gets the commits that to has and since has not, in any order, and
	// perhaps more. Since may be "". Where depth is not 0, those that are as many parents
	// away from to are left out.
	Log(ctx context.Context, since, to store.Hash, depth int) ([]store.Commit, error)
}

// Push is what is to be pushed.
type Push struct {
	// Old is where the branch is thought to be; "" if it is to be created.
	Old store.Hash
	// Commits are the new ones, oldest first. The last one becomes the head. Without
	// any the branch is to be removed.
	Commits []*store.Snapshot
	// Objects are those that the remote lacks, commits included.
	Objects []object.Object
}

// New is where the branch shall be; nil where it is to be removed.
func (p Push) New() *store.Snapshot {
	if p.Removes() {
		return nil
	}
	return p.Commits[len(p.Commits)-1]
}

// Removes says that there shall be no such branch.
func (p Push) Removes() bool { return len(p.Commits) == 0 }

// Cuts says that the new history does not contain the old one.
func (p Push) Cuts() bool {
	return p.Old != "" && !p.Removes() && len(p.Commits[0].Commit().Parents) == 0
}

// ErrGone says that the branch is not, or no longer, at a commit.
var ErrGone = errors.New("the branch is at another commit")

// Options are the parts of a Client that do not come from the remote.
type Options struct {
	// Name is the branch's.
	Name      string
	Committer store.Signature
	// Signer, if not nil, signs the commits of main and status. It does not sign those of other
	// branches, such as those that propose a change: a signature says nothing of the branch, and
	// who moves main to a commit that is signed would have it ordered.
	Signer *signing.Signer
	Now    func() time.Time
	// TrustHints says that hints come from the remote itself. Otherwise it is
	// asked, too: a forged one could name a commit that is no part of the branch.
	TrustHints bool
	// Throttle limits how often the remote is asked; nil for no limit.
	Throttle Throttle
}

// Throttle limits how often a remote is asked, and by how many writers at once. Each
// method waits, and gives up with an error where that would take too long.
type Throttle interface {
	// LockBranch waits until nobody else in this process writes the branch.
	LockBranch(ctx context.Context) (unlock func(), err error)
	// WaitBackoff waits until the back-off after failed requests, or one that the
	// remote asked for, is over.
	WaitBackoff(ctx context.Context) error
	// WaitBudget waits until a push is within the budget of pushes.
	WaitBudget(ctx context.Context) error
}

// unthrottled is a Throttle without limits.
type unthrottled struct{}

func (unthrottled) LockBranch(context.Context) (func(), error) { return func() {}, nil }
func (unthrottled) WaitBackoff(context.Context) error          { return nil }
func (unthrottled) WaitBudget(context.Context) error           { return nil }

// Client is a store.Branch.
type Client struct {
	remote  Remote
	options Options

	// remoteLock is held while the remote is asked, so that what is known never goes
	// back to an older state. Waiting for it can be given up.
	remoteLock *semaphore.Weighted

	mu   sync.Mutex
	snap *store.Snapshot
	// headKnown is false until the first answer, and after a push of which the
	// outcome is not known: then the remote is asked before edits are run.
	headKnown bool
	// started and finished count fetches: a caller who waited while one began and ended
	// needs none of its own. The last one that failed is failed, with failure.
	started, finished, failed uint64
	failure                   error
	queue                     []*pending
	writing                   bool
	commits                   commitCache
	// tooMuch is what was found of a head that has more than is read, and tooLong of
	// a history: they are not asked for again.
	tooMuch *store.LimitError
	tooLong tooLong
}

var _ store.Branch = (*Client)(nil)

// New returns a client that knows nothing yet.
func New(r Remote, o Options) *Client {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Throttle == nil {
		o.Throttle = unthrottled{}
	}
	if o.Name != "main" && o.Name != "status" {
		o.Signer = nil
	}
	c := &Client{remote: r, options: o, remoteLock: semaphore.NewWeighted(1)}
	clients.Add(1)
	runtime.AddCleanup(c, func(int64) { clients.Add(-1) }, 0)
	return c
}

// Snapshot is what is known.
func (c *Client) Snapshot() *store.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshot()
}

func (c *Client) snapshot() *store.Snapshot {
	if c.snap == nil {
		return &store.Snapshot{}
	}
	return c.snap
}

// Fetch asks the remote.
func (c *Client) Fetch(ctx context.Context) (*store.Snapshot, error) {
	return c.FetchTip(ctx, "")
}

// FetchTip asks the remote for a commit that is said to be the head.
func (c *Client) FetchTip(ctx context.Context, tip store.Hash) (*store.Snapshot, error) {
	c.mu.Lock()
	seen, need := c.isHead(tip), c.started+1
	snap := c.snapshot()
	c.mu.Unlock()
	if seen {
		return snap, nil
	}

	if err := c.options.Throttle.WaitBackoff(ctx); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	if err := c.remoteLock.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.remoteLock.Release(1)

	c.mu.Lock()
	// Others may have done it while this one waited.
	done := c.isHead(tip) || c.finished >= need
	snap = c.snapshot()
	if !done && c.failed >= need {
		defer c.mu.Unlock()
		return nil, c.failure
	}
	c.started++
	number := c.started
	c.mu.Unlock()
	if done {
		return snap, nil
	}

	hinted, taken, err := c.loadHint(ctx, tip)
	if err != nil || taken {
		return hinted, err
	}
	if snap, err = c.fetch(ctx, hinted); err != nil {
		if ctx.Err() == nil {
			c.mu.Lock()
			// A remote that is silent is waited for once, not once for each who asks.
			c.failed, c.failure = number, err
			c.mu.Unlock()
		}
		return nil, err
	}
	c.mu.Lock()
	// Those who wait asked for the head, so a hint would not do for them.
	c.finished = number
	c.mu.Unlock()
	return snap, nil
}

// At asks the remote for a commit.
func (c *Client) At(ctx context.Context, commit store.Hash) (*store.Snapshot, error) {
	if err := c.options.Throttle.WaitBackoff(ctx); err != nil {
		return nil, fmt.Errorf("fetch %s: %w", commit.Short(), err)
	}
	if err := c.remoteLock.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.remoteLock.Release(1)
	s, err := c.remote.At(ctx, commit, c.Snapshot())
	if errors.Is(err, ErrGone) {
		err = store.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", commit.Short(), err)
	}
	return s, nil
}

func (c *Client) isHead(tip store.Hash) bool {
	return tip != "" && c.headKnown && c.snap.Head() == tip
}

// setSnapshot takes a snapshot as the newest.
func (c *Client) setSnapshot(s *store.Snapshot) *store.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snap, c.headKnown = s, true
	if s.Head() != "" {
		c.commits.add(s.Commit())
	}
	return c.snapshot()
}

const fetchTries = 5

// loadHint gets what a hint names, and takes it if the branch is there.
func (c *Client) loadHint(ctx context.Context, hint store.Hash) (s *store.Snapshot, taken bool, err error) {
	c.mu.Lock()
	known := c.snap
	_, old := c.commits.byID[hint]
	old = old || c.tooMuch != nil && c.tooMuch.Head == hint
	c.mu.Unlock()
	if hint == "" || old || known.Head() == "" {
		return nil, false, nil
	}
	isThere := func() (bool, error) {
		// What follows on what is known is no older, at least.
		return c.follows(known.Head(), hint), nil
	}
	if !c.options.TrustHints {
		isThere = c.askHead(ctx, hint)
	}
	s, err = c.load(ctx, hint, known)
	there, headErr := isThere()
	switch {
	case errors.Is(err, ErrGone):
		return nil, false, nil
	case err != nil, headErr != nil:
		return nil, false, fmt.Errorf("fetch: %w", cmp.Or(err, headErr))
	case there:
		return c.setSnapshot(s), true, nil
	}
	return s, false, nil
}

// askHead asks, while other things go on, whether the branch is at a commit.
func (c *Client) askHead(ctx context.Context, at store.Hash) (answer func() (bool, error)) {
	var head store.Hash
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		head, err = c.remote.Head(ctx)
	}()
	return func() (bool, error) {
		<-done
		return head == at, err
	}
}

// fetch asks for the head, and gets it unless it is at hand.
func (c *Client) fetch(ctx context.Context, atHand *store.Snapshot) (*store.Snapshot, error) {
	c.mu.Lock()
	known := c.snap
	c.mu.Unlock()
	return c.fetchFrom(ctx, known, atHand)
}

// fetchFrom is fetch by what is known, here or of another branch.
func (c *Client) fetchFrom(ctx context.Context, known, atHand *store.Snapshot) (*store.Snapshot, error) {
	wait := backoff.ExponentialBackOff{InitialInterval: 5 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: time.Second}
	for range fetchTries {
		head, err := c.remote.Head(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("fetch: %w", err)
		case head == "":
			return c.setSnapshot(nil), nil
		case head == known.Head():
			return c.setSnapshot(known), nil
		case head == atHand.Head():
			return c.setSnapshot(atHand), nil
		}
		if err := c.isTooMuch(head); err != nil {
			return nil, fmt.Errorf("fetch: %w", err)
		}
		s, err := c.load(ctx, head, known)
		switch {
		case err == nil:
			return c.setSnapshot(s), nil
		case !errors.Is(err, ErrGone):
			return nil, fmt.Errorf("fetch: %w", err)
		}
		if err := sleep(ctx, wait.NextBackOff()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("fetch: %w", ErrGone)
}

// load gets a snapshot, and keeps the commits that came with it.
func (c *Client) load(ctx context.Context, tip store.Hash, known *store.Snapshot) (*store.Snapshot, error) {
	s, commits, err := c.remote.Load(ctx, tip, known)
	c.mu.Lock()
	defer c.mu.Unlock()
	// The oldest first: they are forgotten first.
	for _, commit := range slices.Backward(newestFirst(commits)) {
		c.commits.add(commit)
	}
	if limit := store.LastingLimit(err); limit != nil {
		c.tooMuch = limit
	}
	return s, err
}

// isTooMuch is the error of a head that is known to have more than is read.
func (c *Client) isTooMuch(head store.Hash) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tooMuch != nil && c.tooMuch.Head == head {
		return c.tooMuch
	}
	return nil
}

// follows says whether a commit is known to come after another one.
func (c *Client) follows(old, new store.Hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, descends, _ := c.commits.log(old, new)
	return descends
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
