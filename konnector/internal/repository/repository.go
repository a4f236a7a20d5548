// Package repository keeps up with one Connection's repository: the newest
// snapshots of main and status, whether main still continues the history that
// was accepted, what the control plane refuses, and whether the Git host can be
// reached. It tells others what changed, and decides nothing about claims.
package repository

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/store"
)

// Remote is how a repository is reached.
type Remote struct {
	Main, Status store.Branch
	// Listen, if not nil, calls onEvent for each ref that moves, until ctx
	// ends, and onError with what does not work, nil when it works again.
	Listen func(ctx context.Context, onEvent func(ref string, hash store.Hash), onError func(error))
}

// Options say whose repository it is.
type Options struct {
	Remote Remote
	// Connection is the Connection's name, ConnectionUID its UID.
	Connection    string
	ConnectionUID types.UID
	ClusterID     string
	// Accepted is the last commit of main that was accepted, as it was saved;
	// "" for first contact.
	Accepted store.Hash
	// Save keeps what was accepted where it outlives this process.
	Save func(ctx context.Context, accepted store.Hash) error
	// OnState is called when Health, Refused or Accepted may have changed. It
	// must not block.
	OnState func()
}

// Repository is one repository. Its methods may be called by many goroutines.
type Repository struct {
	Options
	wakeMain, wakeStatus chan store.Hash

	// accepting is held while a new head is looked at, saving while it is saved.
	accepting, saving sync.Mutex
	own               ownWork

	mu       sync.Mutex
	accepted store.Hash
	saved    store.Hash
	// replacedBy is a head that does not continue what was accepted.
	replaced   bool
	replacedBy store.Hash
	// ancestors are commits known to be part of what was accepted.
	ancestors map[store.Hash]bool
	suspended bool
	resumed   chan struct{}
	suspend   context.CancelFunc
	health    Health
	// mainSeen and statusSeen are what the subscribers know.
	mainSeen, statusSeen   *store.Snapshot
	mainKnown, statusKnown bool
	refused                refusals
	subscribers            map[*subscription]struct{}
}

// New returns a repository that knows nothing until it is Run.
func New(o Options) *Repository {
	return &Repository{
		Options:     o,
		wakeMain:    make(chan store.Hash, 1),
		wakeStatus:  make(chan store.Hash, 1),
		accepted:    o.Accepted,
		saved:       o.Accepted,
		ancestors:   map[store.Hash]bool{},
		resumed:     make(chan struct{}),
		subscribers: map[*subscription]struct{}{},
		refused:     refusals{},
	}
}

// ErrNotContacted says that nothing is known of the repository yet.
var ErrNotContacted = errors.New("repository was not reached yet")

// ErrSuspended says that there is no credential for the repository.
var ErrSuspended = errors.New("no credential for the repository")

// View is what is known of both branches.
type View struct {
	Main, Status *store.Snapshot
	// Replaced says in words that Main does not continue what was accepted; ""
	// when it does.
	Replaced string
}

// View returns the newest that is known: at least what any Update that has
// returned has pushed. It asks the remote only for history.
func (r *Repository) View(ctx context.Context) (View, error) {
	r.mu.Lock()
	contacted := r.health.Contacted
	r.mu.Unlock()
	if !contacted {
		return View{}, ErrNotContacted
	}
	main, replaced, err := r.accept(ctx)
	if err != nil {
		return View{}, err
	}
	return View{Main: main, Status: r.Remote.Status.Snapshot(), Replaced: replaced}, nil
}

// Update commits an edit to main.
func (r *Repository) Update(ctx context.Context, e store.Edit) (*store.Snapshot, error) {
	r.mu.Lock()
	suspended := r.suspended
	r.mu.Unlock()
	if suspended {
		return nil, ErrSuspended
	}
	s, err := r.Remote.Main.Update(ctx, e)
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrRejected) {
		// Whoever follows finds out what is wrong, and when it is over.
		store.Tell(r.wakeMain, "")
	}
	return s, err
}
