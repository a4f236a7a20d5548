// Package session follows the repository of one app cluster: it says which
// commit of main counts, which of its paths wait for an answer, and whether a
// file that main lacks was removed by somebody.
//
// It refuses to follow a main that does not descend from the last commit that it
// accepted, and a branch status that is not the one it wrote: then nothing is
// changed on the control plane until main descends from it again, or a person
// decides. It applies and deletes nothing itself, but it says which removals may be
// acted on: what is removed together with too much else waits for a person, too.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/claimdiff"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/internal/progress"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
)

// Options are the parts of a Session.
type Options struct {
	Cluster      tenant.Cluster
	Main, Status store.Branch
	// Checkpoint is the one that was saved last.
	Checkpoint Checkpoint
	// Approved is the commit of main that a person accepted as a new begin.
	Approved store.Hash
	// Suspended is what Stops.Suspend is told at first.
	Suspended *Stop
	// Counts tells whether a key's signature of a commit of some time is enough for main
	// to be accepted; nil where no signatures are asked for. The key is "" for a commit
	// that is not signed.
	Counts func(key signing.Key, at time.Time) bool
	// Limits say how many removals may pass by themselves.
	Limits breaker.Limits
	// Save keeps one where it outlives the process.
	Save func(context.Context, Checkpoint) error
	// Enqueue has a path of main looked at. Urgent is what just changed.
	Enqueue func(path string, urgent bool)
	// OnControlPlane are the paths of the claims, of one binding or with "" of all, that have
	// an object on the control plane, as far as objects are known: see ObjectsKnown. Each has
	// the commit of main that the object says it was applied from. Nil is for none.
	OnControlPlane func(binding string) map[string]store.Hash
	// CountQuota has it published how much of a binding's quota is used.
	CountQuota func(binding string)
	// DryRun says what the control plane would make of a claim that main does not have.
	DryRun func(ctx context.Context, p Proposed) Trial
	// Began is told when the first commit of main counts: from then on status
	// can be written. It is told again when status is another branch than before, and when
	// IsReached says so again.
	Began func()
	// Changed is told when Condition may say something else.
	Changed func()
	// Log is told when something of the repository does not work, and when it does again.
	Log logr.Logger
	Now func() time.Time
}

// Session is one followed repository.
type Session struct {
	Cluster tenant.Cluster
	Status  *statusbranch.Branch
	// Answers are what is on Status, and Removals what main lacks. Checkpoints keep what
	// must not be forgotten of main.
	Answers     *Answers
	Removals    *Removals
	Checkpoints *Checkpoints
	// Stops say why nothing at all is done, Recreation what a person wants made again,
	// and Foreign which claims wait for objects that are not theirs.
	Stops      *Stops
	Recreation *Recreation
	Foreign    *Foreign

	options    Options
	health     health
	mainAnswer *mainAnswer
	// opened is closed when the branch status is known.
	opened chan struct{}
	// life ends with Run, and writing is held by writes that others make in it.
	life    context.Context
	end     context.CancelFunc
	writing sync.RWMutex

	// following is held while a new head is judged. It guards what follows: the head
	// that was seen last, the one that a person approved, and whether status is the
	// branch that was written here.
	following  sync.Mutex
	seen       *store.Snapshot
	approved   store.Hash
	statusLost bool
	// setBack is how often it was another one.
	setBack atomic.Int64
	// unjudged says that the guard could not be asked about the commit that was seen last.
	unjudged atomic.Bool

	mu   sync.Mutex
	view View
	// begins is how many times main began again, or is about to. What was decided on a view
	// with fewer is not written.
	begins int
	// unanswered are those that commits named.
	unanswered unanswered
	// strays is how many files of the accepted commit are no part of the contract.
	strays int
	// objectsKnown says that all objects are known that there were at the start.
	objectsKnown bool
}

// View is the newest commit of main that counts.
type View struct {
	// Main is nil before the first.
	Main       *store.Snapshot
	Generation progress.Generation
	// Held says that main went elsewhere since.
	Held bool
	// begins is how many times main had begun again.
	begins int
}

// New returns a session that does nothing before Run.
func New(o Options) *Session {
	known := o.OnControlPlane == nil
	if known {
		o.OnControlPlane = func(string) map[string]store.Hash { return nil }
	}
	status := statusbranch.New(o.Status, o.Now)
	s := &Session{
		Cluster: o.Cluster, Status: status, Answers: &Answers{status: status, cluster: o.Cluster}, options: o,
		opened: make(chan struct{}), approved: o.Approved, unanswered: unanswered{uids: map[string]string{}}, objectsKnown: known,
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.health.changed, s.health.now, s.health.log = o.Changed, o.Now, o.Log
	s.Removals = &Removals{
		branch: facts.Main{Branch: o.Main, ClusterID: o.Cluster.ID}, status: status, answers: s.Answers, now: o.Now, enqueue: o.Enqueue, changed: o.Changed,
		onControlPlane: o.OnControlPlane, all: map[string]*Removal{}, passed: o.Checkpoint.Removals, limits: o.Limits,
	}
	s.Checkpoints = &Checkpoints{write: o.Save, status: status, view: s.View, removals: s.Removals, last: o.Checkpoint, begun: cmp.Or(o.Checkpoint.Begun, o.Checkpoint.Accepted)}
	s.Removals.begun = s.Checkpoints.Begun
	s.Stops = &Stops{changed: o.Changed, resume: s.resume, suspended: o.Suspended, resumed: make(chan struct{})}
	s.mainAnswer = &mainAnswer{status: status, stops: s.Stops, news: make(chan struct{}, 1)}
	s.Recreation = &Recreation{enqueue: o.Enqueue, changed: o.Changed}
	s.Foreign = &Foreign{all: s.isAllAnswered, paths: map[string]bool{}}
	return s
}

// resume has everything looked at again, after nothing was done.
func (s *Session) resume() {
	s.mainAnswer.wake()
	if main := s.View().Main; main != nil {
		s.options.Began()
		s.enqueueAll(main)
	}
}

func (s *Session) isAllAnswered() bool {
	view := s.View()
	return view.Main != nil && s.Status.IsAnswered(view.Generation)
}

// Opened is closed when the branch status is known: before, no path can be
// answered.
func (s *Session) Opened() <-chan struct{} { return s.opened }

// Run follows the repository until ctx ends. When it has returned, nothing is written any
// more. Wake gives hints, by branch.
func (s *Session) Run(ctx context.Context, wakeMain, wakeStatus <-chan store.Hash) {
	defer s.close()
	var wg sync.WaitGroup
	main, status := unlessSuspended{s.options.Main, s.Stops}, unlessSuspended{s.options.Status, s.Stops}
	wg.Go(func() {
		store.Follow(ctx, store.FollowOptions{
			Branch: status, Wake: wakeStatus, Poll: 5 * time.Minute,
			OnChange: func(ctx context.Context, _, new *store.Snapshot) error { return s.onStatus(ctx, new) },
			OnError:  func(err error) { s.health.set(opening, err) },
			// What was written may be known to have been there only after it was looked at.
			Again: s.Status.IsSetBack,
		})
	})
	defer wg.Wait()
	// Main counts only when status is known, and need not wait for that to come.
	// What goes wrong is told when it is asked for again.
	wg.Go(func() { _, _ = main.Fetch(ctx) })
	select {
	case <-s.opened:
	case <-ctx.Done():
		return
	}
	wg.Go(func() { s.Status.Settle(ctx, s.pushed) })
	wg.Go(func() { s.mainAnswer.keep(ctx) })
	store.Follow(ctx, store.FollowOptions{
		Branch: main, Wake: wakeMain,
		OnChange: func(ctx context.Context, _, new *store.Snapshot) error { return s.onMain(ctx, new) },
		OnError:  func(err error) { s.onMainError(err) },
		Again:    s.unjudged.Load,
	})
	s.Checkpoints.close(context.WithoutCancel(ctx))
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
	return s.unanswered.uids[path]
}

// ErrEnded says that the repository is not followed any more, by this session.
var ErrEnded = errors.New("the repository is not followed any more")

// close has writes fail from now on, and waits for those under way.
func (s *Session) close() {
	s.end()
	s.writing.Lock()
	defer s.writing.Unlock()
}

// Write answers a path, or writes another file of status. Who writes may live longer than
// the session: it fails when that has ended, as another one may follow the repository by
// then.
func (s *Session) Write(ctx context.Context, c statusbranch.Change) error {
	s.writing.RLock()
	defer s.writing.RUnlock()
	if s.life.Err() != nil {
		return ErrEnded
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	err := s.Status.Write(ctx, c)
	if ctx.Err() == nil {
		s.pushed(err)
	}
	return err
}

// Answer writes what was decided on a view. Once main begins again, what was decided on a view
// before that is refused with ErrOutdated: it could take the place of what is held by then.
func (s *Session) Answer(ctx context.Context, view View, c statusbranch.Change) error {
	s.mu.Lock()
	outdated := view.begins < s.begins
	s.mu.Unlock()
	if outdated {
		return fmt.Errorf("answer %s: %w", c.Path, statusbranch.ErrOutdated)
	}
	return s.Write(ctx, c)
}

// Answered says that the answer to a path is on status; nil for none.
func (s *Session) Answered(path string, answer *contract.Status) {
	uid := ""
	if answer != nil {
		uid = answer.UID
	}
	s.mu.Lock()
	s.unanswered.answered(path, uid)
	s.mu.Unlock()
	news := s.Foreign.note(path, answer)
	if answer == nil || answer.Result == contract.Gone {
		news = s.Removals.end(path) || news
	}
	if news {
		s.options.Changed()
	}
}

// Enqueue has a path looked at.
func (s *Session) Enqueue(path string, urgent bool) { s.options.Enqueue(path, urgent) }

// EnqueueBinding has all claims of a binding looked at.
func (s *Session) EnqueueBinding(binding string) {
	s.enqueueBelow(s.View().Main, binding)
}

// CountQuota has it published how much of a binding's quota is used.
func (s *Session) CountQuota(binding string) { s.options.CountQuota(binding) }

// Proposed is a claim file as main would have it after a merge.
type Proposed struct {
	Path string
	// Data is nil for one that main would not have any more.
	Data []byte
	// Head is the commit of the change.
	Head string
}

// TookTooLong is said of a claim for which there was no time.
const TookTooLong = "the control plane took too long"

// Trial is what the control plane would make of a claim.
type Trial struct {
	// Refused is why it would not take it, "" if it would, and Untried why that is not known.
	Refused, Untried string
	// Transient says that another try may know it.
	Transient bool
	// Fields are what would change in its object, and More how many more there are.
	Fields []claimdiff.Change
	More   int
}

// DryRun says what the control plane would make of a claim, and writes nothing.
func (s *Session) DryRun(ctx context.Context, p Proposed) Trial { return s.options.DryRun(ctx, p) }

// EnqueueAll has all claims looked at.
func (s *Session) EnqueueAll() {
	if main := s.View().Main; main != nil {
		s.enqueueAll(main)
	}
}
