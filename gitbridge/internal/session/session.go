// Package session follows the repository of one app cluster: it says which
// commit of main counts, which of its paths wait for an answer, and whether a
// file that main lacks was removed by somebody.
//
// It refuses to follow a main that does not descend from the last commit that it
// accepted, and a branch status that is not the one it wrote: then nothing is
// changed on the control plane until a person decides. It applies and deletes
// nothing itself, but it says which removals may be acted on: what is removed
// together with too much else waits for a person, too.
package session

import (
	"context"
	"sync"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/progress"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// Memory is what outlives the process: it is kept in the ClusterBinding.
type Memory struct {
	// Accepted is the last commit of main that was accepted, as far as it was
	// written down; "" before the first contact.
	Accepted store.Hash
	// Epoch is that of the branch status, and Sequence one that it has reached.
	Epoch    string
	Sequence int64
	// Removals are those that passed lately.
	Removals []breaker.Removal
}

// Options are the parts of a Session.
type Options struct {
	Cluster      tenant.Cluster
	Main, Status store.Branch
	Memory       Memory
	// Approved is the commit of main that a person accepted as a new begin.
	Approved store.Hash
	// Limits say how many removals may pass by themselves.
	Limits breaker.Limits
	// Remember writes the memory down.
	Remember func(context.Context, Memory) error
	// Enqueue has a path of main looked at. Urgent is what just changed.
	Enqueue func(path string, urgent bool)
	// Began is told when the first commit of main counts: from then on status
	// can be written. It is told again when status is another branch than before.
	Began func()
	// Changed is told when Condition may say something else.
	Changed func()
	Now     func() time.Time
}

// Session is one followed repository.
type Session struct {
	Cluster tenant.Cluster
	Status  *statusbranch.Branch

	options Options
	health  health
	answers contract.Statuses
	// opened is closed when the branch status is known.
	opened chan struct{}

	// following is held while a new head is considered.
	following sync.Mutex
	seen      *store.Snapshot
	approved  store.Hash
	lost      bool

	mu   sync.Mutex
	view View
	uids map[string]string
	// removals are the claims that main lacks and that are not known to be gone.
	removals map[string]*Removal
	// passed are the removals that passed lately, changes counts how often that
	// changed, and base is from where main is followed.
	passed  []breaker.Removal
	changes int
	base    store.Hash
	limits  breaker.Limits
	// stalled is why nothing at all is done, and anew says that this session
	// begins on a branch status that is not its own.
	stalled         *Hold
	anew, suspended bool
	// foreign are the claims in whose place somebody else's objects are, and
	// surveyed says that all of main was looked at for them.
	foreign  map[string]bool
	surveyed bool
	// recreate is what is to be made anew, and recreated the list that was.
	recreate, recreated string

	// remembering is held while the memory is written.
	remembering sync.Mutex
	memory      Memory
	epoch       string
	remembered  progress.Generation
	saved       int
	later       *time.Timer
}

// View is the newest commit of main that counts.
type View struct {
	// Main is nil before the first.
	Main       *store.Snapshot
	Generation progress.Generation
	// Held says that main went elsewhere since.
	Held bool
}

// New returns a session that does nothing before Run.
func New(o Options) *Session {
	s := &Session{
		Cluster: o.Cluster, Status: statusbranch.New(o.Status, o.Now), options: o,
		opened: make(chan struct{}), approved: o.Approved, memory: o.Memory,
		uids: map[string]string{}, removals: map[string]*Removal{}, foreign: map[string]bool{}, passed: o.Memory.Removals, limits: o.Limits,
	}
	s.health.changed, s.health.now = o.Changed, o.Now
	return s
}

// Opened is closed when the branch status is known: before, no path can be
// answered.
func (s *Session) Opened() <-chan struct{} { return s.opened }

// Run follows the repository until ctx ends. Wake gives hints, by branch.
func (s *Session) Run(ctx context.Context, wakeMain, wakeStatus <-chan store.Hash) {
	var wg sync.WaitGroup
	wg.Go(func() {
		store.Follow(ctx, store.FollowOptions{
			Branch: s.options.Status, Wake: wakeStatus, Poll: 5 * time.Minute,
			OnChange: func(_ context.Context, _, new *store.Snapshot) error { return s.onStatus(new) },
			OnError:  func(err error) { s.health.set(opening, err) },
		})
	})
	defer wg.Wait()
	// Main counts only when status is known, and need not wait for that to come.
	// What goes wrong is told when it is asked for again.
	wg.Go(func() { _, _ = s.options.Main.Fetch(ctx) })
	select {
	case <-s.opened:
	case <-ctx.Done():
		return
	}
	wg.Go(func() { s.Status.Settle(ctx, s.pushed) })
	store.Follow(ctx, store.FollowOptions{
		Branch: s.options.Main, Wake: wakeMain,
		OnChange: func(ctx context.Context, _, new *store.Snapshot) error { return s.onMain(ctx, new) },
		OnError:  func(err error) { s.health.set(fetching, err) },
	})
	s.close(context.WithoutCancel(ctx))
}

// View is the newest commit that counts.
func (s *Session) View() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// UID is that of the claim at a path, if commits named it since its last answer.
func (s *Session) UID(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uids[path]
}

// Write answers a path, or writes another file of status.
func (s *Session) Write(ctx context.Context, c statusbranch.Change) error {
	err := s.Status.Write(ctx, c)
	if ctx.Err() == nil {
		s.pushed(err)
	}
	return err
}

// Answered says that the answer to a path is on status; nil for none.
func (s *Session) Answered(path string, answer *contract.Status) {
	uid := ""
	if answer != nil {
		uid = answer.UID
	}
	s.mu.Lock()
	if s.uids[path] == uid {
		delete(s.uids, path)
	}
	toldOf := false
	if answer == nil || answer.Result == contract.Gone {
		r := s.removals[path]
		toldOf = r != nil && (r.Reason != "" || r.approvedHere)
		delete(s.removals, path)
	}
	news := s.noteForeign(path, answer)
	s.mu.Unlock()
	if toldOf || news {
		s.options.Changed()
	}
}

// Enqueue has a path looked at.
func (s *Session) Enqueue(path string, urgent bool) { s.options.Enqueue(path, urgent) }

// EnqueueBinding has all claims of a binding looked at.
func (s *Session) EnqueueBinding(binding string) {
	for path := range s.paths(s.View().Main, contract.BindingPath(binding)) {
		s.options.Enqueue(path, false)
	}
}
