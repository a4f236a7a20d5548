// Package repository keeps up with one Connection's repository: the newest
// snapshots of main and status, whether main still continues the history that
// was accepted, what the control plane refuses, and whether the Git host can be
// reached. It tells others what changed, and decides nothing about claims.
package repository

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

// Remote is how a repository is reached.
type Remote struct {
	Main, Status store.Branch
	// Branch is any other one.
	Branch func(name string) store.Branch
	// Listen, if not nil, calls onEvent for each ref that moves, until ctx
	// ends, and onError with what does not work, nil when it works again.
	Listen func(ctx context.Context, onEvent func(ref string, hash store.Hash), onError func(error))
	// Verdict, if not nil, asks what became of a commit that was proposed on a branch.
	Verdict func(ctx context.Context, branch, commit string) (decision.Verdict, error)
}

// Options say whose repository it is.
type Options struct {
	Remote Remote
	// Connection is the Connection's name, ConnectionUID its UID.
	Connection    string
	ConnectionUID types.UID
	ClusterID     string
	// Namespaces limits which namespaces' claims belong here; none for all. In
	// each "*" stands for any characters.
	Namespaces []string
	// Limits say how many removals are too many at once.
	Limits breaker.Limits
	// Checkpoint is the one that was saved last.
	Checkpoint Checkpoint
	// Save keeps one where it outlives this process.
	Save func(ctx context.Context, c Checkpoint) error
	Now  func() time.Time
	// OnState is called when Health, Refused or the checkpoint may have changed. It
	// must not block.
	OnState func()
	// OnProgress, if not nil, is called in the place of OnState when main has moved, and
	// nothing else has changed. It must not block.
	OnProgress func()
	// OnUnknownSigner, if not nil, is called when what lies on status is signed with a
	// key that the opener does not know. It must not block.
	OnUnknownSigner func()
	// Standing, if not nil, is what is known of other processes of the cluster. It must
	// not block. Without it there are none.
	Standing func() Standing
	// OnRequest, if not nil, is called with each binding whose request.yaml changed,
	// or the answer to it. It must not block, and must not call back.
	OnRequest func(binding string)
}

// Repository is one repository. Its methods may be called by many goroutines.
type Repository struct {
	Options
	// Lineage is main as far as it was accepted, Pushes what this agent committed to
	// it, Doubts what may be there, and Removals those that wait for the guard's verdict.
	// Checkpoints keep what they must not forget.
	Lineage     *Lineage
	Pushes      *Pushes
	Doubts      Doubts
	Removals    *Removals
	Checkpoints *Checkpoints

	status               *statusBranch
	opener               atomic.Pointer[encryption.Opener]
	sender               atomic.Pointer[encryption.Sender]
	tell                 *subscribers
	wakeMain, wakeStatus chan store.Hash
	// statusTold is what was said of status last; it belongs to what follows it.
	statusTold string

	mu        sync.Mutex
	suspended bool
	resumed   chan struct{}
	suspend   context.CancelFunc
	health    Health
	// pushTrouble is why the last push did not come to the host, as the log says it.
	pushTrouble error
	// mainSeen and statusSeen are what the subscribers know.
	mainSeen, statusSeen   *store.Snapshot
	mainKnown, statusKnown bool
	// ahead is a commit that the control plane has seen and main did not have when that was
	// told; "" for none.
	ahead      store.Hash
	refused    refusals
	rejections rejections
	requested  map[string]struct{}
}

// New returns a repository that knows nothing until it is Run.
func New(o Options) *Repository {
	r := &Repository{
		Options:     o,
		Checkpoints: newCheckpoints(o.Checkpoint, o.Save),
		tell:        &subscribers{onState: o.OnState, all: map[*subscription]struct{}{}},
		wakeMain:    make(chan store.Hash, 1),
		wakeStatus:  make(chan store.Hash, 1),
		resumed:     make(chan struct{}),
		refused:     refusals{},
		requested:   map[string]struct{}{},
	}
	r.Lineage = newLineage(facts.Main{Branch: o.Remote.Main, ClusterID: o.ClusterID}, r.Checkpoints)
	r.status = &statusBranch{branch: o.Remote.Status, lineage: r.Lineage, checkpoints: r.Checkpoints}
	r.Pushes = &Pushes{lineage: r.Lineage}
	r.Removals = &Removals{
		connection: o.Connection, limits: o.Limits, now: o.Now, view: r.View, judging: semaphore.NewWeighted(1),
		lineage: r.Lineage, checkpoints: r.Checkpoints, tell: r.tell, waits: map[contract.Key]*wait{},
	}
	r.Lineage.changed, r.Lineage.noteStep = r.accepted, r.Removals.noteStep
	return r
}

// accepted tells of another head of main.
func (r *Repository) accepted(before, now *accepted) {
	if before.verdict.IsHeld() && !now.verdict.IsHeld() || r.Removals.AnyHeld() {
		// Those who wait may be fewer now.
		r.tell.recovered()
	}
	if before.known && !before.verdict.IsHeld() && !now.verdict.IsHeld() && r.OnProgress != nil {
		r.OnProgress()
		return
	}
	r.tell.stateChanged()
}

// ErrNotContacted says that nothing is known of the repository yet.
var ErrNotContacted = errors.New("repository was not reached yet")

// ErrOfAnotherHost says that the credential is for a repository on another host than the Connection's.
var ErrOfAnotherHost = errors.New("the credential is for a repository on another host")

// ErrSuspended says that there is no credential for the repository, or that it was closed.
var ErrSuspended = errors.New("no credential for the repository")

// ErrMoved says that something is not any more what was decided on.
var ErrMoved = errors.New("changed meanwhile")

// View is what is known of both branches.
type View struct {
	Main, Status *store.Snapshot
	// Replaced says in words that Main does not continue what was accepted; ""
	// when it does.
	Replaced string
	// StatusReplaced says in words that Status does not continue what was seen of
	// that branch; "" when it does.
	StatusReplaced string
	// Copied says in words that another copy of the cluster is live; "" when none is
	// known.
	Copied string

	lineage *Lineage
}

// IsHeld reports whether some of what a claim needs is not done by this view: also where
// nothing else is to be done, it is to be looked at when the hold ends.
func (v View) IsHeld() bool { return v.Replaced != "" || v.StatusReplaced != "" || v.Copied != "" }

// View returns the newest that is known: at least what any Update that has
// returned has pushed. It asks the remote only for history.
func (r *Repository) View(ctx context.Context) (View, error) {
	r.mu.Lock()
	contacted := r.health.Contacted
	r.mu.Unlock()
	if !contacted {
		return View{}, ErrNotContacted
	}
	main, v, err := r.Lineage.accept(ctx)
	if err != nil {
		return View{}, err
	}
	status, replaced := r.status.view()
	return View{Main: main, Status: status, Replaced: v.Message, StatusReplaced: replaced, Copied: r.standing().Copied, lineage: r.Lineage}, nil
}

// Serves reports whether the claims of a namespace belong here.
func (r *Repository) Serves(namespace string) bool {
	return len(r.Namespaces) == 0 || slices.ContainsFunc(r.Namespaces, func(pattern string) bool {
		ok, err := path.Match(pattern, namespace)
		return ok && err == nil
	})
}

// Update commits an edit to main, if main continues what was accepted last: while the Git host
// was restored, there is always something that waits to be pushed. The error is ErrMoved where
// it does not.
func (r *Repository) Update(ctx context.Context, e store.Edit) (*store.Snapshot, error) {
	e.Since = r.Lineage.Accepted()
	s, err := r.push(ctx, func() (*store.Snapshot, error) { return r.Remote.Main.Update(ctx, e) })
	if errors.Is(err, store.ErrRewritten) {
		return nil, ErrMoved
	}
	return s, err
}

// IsFile reports whether an entry of a tree is the file that was looked at, which is nil for none.
func IsFile(e store.Entry, ok bool, file *store.Entry) bool {
	return ok == (file != nil) && (!ok || e.Hash == file.Hash && e.Mode == file.Mode)
}

// Confirm asks the Git host whether main has the file that was looked at, nil for none. The
// error is ErrMoved where it has another one.
func (r *Repository) Confirm(ctx context.Context, path string, file *store.Entry) error {
	if r.Suspended() {
		return ErrSuspended
	}
	main, err := r.Remote.Main.Fetch(ctx)
	if err != nil {
		return fmt.Errorf("ask whether %s has changed on main: %w", path, err)
	}
	if e, ok := main.Entry(path); !IsFile(e, ok, file) {
		return ErrMoved
	}
	return nil
}

// MayWrite is why nothing on the host may be changed now; nil if it may.
func (r *Repository) MayWrite() error {
	switch {
	case r.Suspended():
		return ErrSuspended
	case r.standing().Copied != "":
		return ErrCopied
	}
	return nil
}

// push is for each push to the host. The error is ErrNotTried while the host rejects all.
func (r *Repository) push(ctx context.Context, update func() (*store.Snapshot, error)) (*store.Snapshot, error) {
	if err := r.MayWrite(); err != nil {
		return nil, err
	}
	if err := r.rejections.check(r.Now()); err != nil {
		return nil, err
	}
	s, err := update()
	if r.rejections.note(err) {
		r.tell.recovered()
	}
	r.notePush(ctx, err)
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrRejected) {
		// What follows the branch finds out what is wrong, and when it is over.
		store.Tell(r.wakeMain, "")
	}
	return s, err
}
