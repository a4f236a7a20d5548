// Package lease lets one process of several work: the one that holds a Lease in
// the cluster. The others stand by.
//
// It keeps a process that was stopped and goes on from doing harm: what it
// guards refuses to write as soon as the Lease may belong to another. It is no
// substitute for preconditions: a request that was on its way when the process
// was stopped may still arrive.
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options say which Lease, and for how long it is held.
type Options struct {
	// Elect is whether to wait for the Lease at all. Without it nothing is
	// guarded, and nobody must run a second process.
	Elect bool
	// Namespace and Name are those of the Lease.
	Namespace, Name string
	// Identity is who holds it: the name of the pod, so that a container that
	// restarts in its pod need not wait for the Lease of the one before. No
	// two processes may share it. Default: one that nobody had before.
	Identity string
	// Duration is after how long without a renewal another may take the Lease,
	// in whole seconds; Renew is after how long the holder gives up; Retry is
	// between two looks, up to 2.2 times that for those who stand by. The holder
	// renews less often: see pause.
	Duration, Renew, Retry time.Duration
}

// Default holds on through ten seconds of an API server that does not answer,
// and has a successor take over within two seconds of a clean end. Its Lease
// is to be named.
func Default() Options {
	return Options{Elect: true, Duration: 15 * time.Second, Renew: 10 * time.Second, Retry: 800 * time.Millisecond}
}

func (o Options) validate() error {
	switch {
	case !o.Elect:
		return nil
	case o.Duration < time.Second || o.Duration%time.Second != 0:
		return fmt.Errorf("the lease's duration is %s: want whole seconds", o.Duration)
	case o.Renew >= o.Duration:
		return fmt.Errorf("the lease is renewed for %s: want less than its duration of %s", o.Renew, o.Duration)
	case o.Retry <= 0 || float64(o.Renew) <= leaderelection.JitterFactor*float64(o.Retry):
		return fmt.Errorf("the lease is tried every %s: want more than 0 and less than %s / %.1f", o.Retry, o.Renew, leaderelection.JitterFactor)
	}
	return nil
}

// ErrNotHeld says that a process that does not hold the Lease, or may have lost
// it, was about to write.
var ErrNotHeld = errors.New("the lease is not held: another process may work")

// errWentBack ends a process. Its caches have seen newer versions of objects than there are:
// a watch from these tells nothing until the cluster has counted up to them again.
var errWentBack = errors.New("the cluster was set back to an earlier state")

// Lease is one process' part in the election. It is the lock that the election
// asks for, so that it knows how long it is held.
type Lease struct {
	resourcelock.Interface
	options Options

	mu sync.Mutex
	// until is when another may take the Lease. It is measured from before the
	// renewal was sent: those who see it later wait longer.
	until  time.Time
	holder string
	// renewed is what this process wrote last as the time of its renewal, and last what the
	// Lease said last, or was told by this process.
	renewed time.Time
	last    resourcelock.LeaderElectionRecord
	// wentBack is set, and back closed, when the Lease is from before either: the cluster was
	// restored.
	wentBack bool
	back     chan struct{}
}

// New prepares for an election; config is the process' identity in the cluster.
func New(config *rest.Config, o Options) (*Lease, error) {
	if err := o.validate(); err != nil || !o.Elect {
		return &Lease{options: o}, err
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
	}
	config = rest.CopyConfig(config)
	// One request that hangs must not cost the Lease.
	config.Timeout = max(o.Renew/2, time.Second)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare lease %s/%s: %w", o.Namespace, o.Name, err)
	}
	return &Lease{options: o, back: make(chan struct{}), Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}}, nil
}

// Configure has a manager take part in the election.
func (l *Lease) Configure(o *ctrl.Options) {
	if !l.options.Elect {
		return
	}
	o.LeaderElection = true
	o.LeaderElectionID = l.options.Name
	o.LeaderElectionResourceLockInterface = l
	o.LeaderElectionReleaseOnCancel = true
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &l.options.Duration, &l.options.Renew, &l.options.Retry
}

// Tell has a manager log whether it works or stands by.
func (l *Lease) Tell(mgr ctrl.Manager) error {
	if !l.options.Elect {
		return nil
	}
	return mgr.Add(teller{l, mgr})
}

type teller struct {
	lease *Lease
	mgr   ctrl.Manager
}

var _ manager.LeaderElectionRunnable = teller{}

// NeedLeaderElection says that it runs where it stands by, too.
func (teller) NeedLeaderElection() bool { return false }

func (t teller) Start(ctx context.Context) error {
	log := t.mgr.GetLogger().WithValues("lease", t.lease.name(), "identity", t.lease.options.Identity)
	select {
	case <-t.mgr.Elected():
		log.Info("Working: the lease is held")
		return nil
	case <-time.After(2 * t.lease.options.Retry):
		log.Info("Standing by: another process works", "holder", t.lease.seen())
	case <-ctx.Done():
		return nil
	}
	select {
	case <-t.mgr.Elected():
		log.Info("Working: the lease was taken over")
	case <-t.lease.back:
		// The election would go on asking for ever.
		return errWentBack
	case <-ctx.Done():
	}
	return nil
}

func (l *Lease) name() string { return l.options.Namespace + "/" + l.options.Name }

func (l *Lease) seen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.holder, "nobody")
}

// Explain puts the error of a manager that ended in words.
func (l *Lease) Explain(err error) error {
	if err == nil || !l.options.Elect {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch left := left(l.until, time.Now(), time.Now()); {
	case l.wentBack:
		return fmt.Errorf("lease %s is older than this process has seen it: %w, so this process ends, and reads all of it again: %w", l.name(), errWentBack, err)
	case l.until.IsZero():
		return err
	case l.holder != l.options.Identity && l.holder != "":
		return fmt.Errorf("lease %s was lost to %s, so this process ends: %w", l.name(), l.holder, err)
	case left <= l.options.Duration-l.options.Renew:
		return fmt.Errorf("lease %s was not renewed for %s, so this process ends: %w", l.name(), (l.options.Duration - left).Round(time.Second), err)
	default:
		return err
	}
}

// Get notes who holds the Lease, and whether it went back.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = record.HolderIdentity
	if !l.wentBack && (l.holder == l.options.Identity && isBefore(record.RenewTime.Time, l.renewed) || isOlder(record, &l.last)) {
		l.wentBack, l.until = true, time.Now()
		close(l.back)
	}
	if l.wentBack {
		return nil, nil, errWentBack
	}
	l.last = *record
	return record, raw, nil
}

// isOlder reports whether the Lease had a record before it had another one. Times of two
// holders say nothing, as their clocks may differ.
func isOlder(record, than *resourcelock.LeaderElectionRecord) bool {
	if record.LeaderTransitions != than.LeaderTransitions {
		return record.LeaderTransitions < than.LeaderTransitions
	}
	return record.HolderIdentity == than.HolderIdentity && isBefore(record.RenewTime.Time, than.RenewTime.Time)
}

// isBefore compares times of which the cluster may have rounded one.
func isBefore(a, b time.Time) bool { return a.Add(time.Second).Before(b) }

// mayBeWritten fails once the Lease went back: who read it could renew it.
func (l *Lease) mayBeWritten() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wentBack {
		return errWentBack
	}
	return nil
}

// Create takes the Lease.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return l.wrote(began, record, l.Interface.Create(ctx, record))
}

// Update takes, renews or releases the Lease. The election asks for a renewal at
// each look; one that is hardly older than the last is not sent, as nothing
// changes by it but the time.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.mayBeWritten(); err != nil {
		return err
	}
	if record.HolderIdentity == l.options.Identity && l.isFresh() {
		return nil
	}
	if record.HolderIdentity != l.options.Identity {
		// Nothing is to be written from the moment on at which a release is
		// sent.
		l.mu.Lock()
		l.until = time.Now()
		holder := l.holder
		l.mu.Unlock()
		if holder != l.options.Identity {
			// The election reads the Lease before it releases it, but does not look at
			// who holds it: without this, a process that hung would free the Lease of
			// its successor.
			return fmt.Errorf("release lease %s: %q holds it", l.name(), holder)
		}
	}
	began := time.Now()
	return l.wrote(began, record, l.Interface.Update(ctx, record))
}

// pause is for how long a renewal is as good as new: so short that a holder who
// cannot renew any more still gives up before another may take the Lease.
func (o Options) pause() time.Duration { return min(2*time.Second, (o.Duration-o.Renew)/2) }

func (l *Lease) isFresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder == l.options.Identity && left(l.until, time.Now(), time.Now()) > l.options.Duration-l.options.pause()
}

// left is how long it is until a time, by the monotonic clock of one and by the wall clock of
// the other, whichever is less: the first stands still while a machine is suspended, and the
// second may be set back.
func left(until, monotonic, wall time.Time) time.Duration {
	return min(until.Sub(monotonic), until.Round(0).Sub(wall.Round(0)))
}

func (l *Lease) wrote(began time.Time, record resourcelock.LeaderElectionRecord, err error) error {
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.last = record.HolderIdentity, record
	if l.holder == l.options.Identity {
		l.until, l.renewed = began.Add(l.options.Duration), record.RenewTime.Time
	}
	return nil
}

// Held reports whether nobody else can hold the Lease now.
func (l *Lease) Held() bool {
	if !l.options.Elect {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return left(l.until, time.Now(), time.Now()) > 0
}

// Guard has requests that write fail with ErrNotHeld while the Lease is not
// held. Reading is free to everybody.
func (l *Lease) Guard(next http.RoundTripper) http.RoundTripper {
	if !l.options.Elect {
		return next
	}
	return guard{l, next}
}

type guard struct {
	lease *Lease
	next  http.RoundTripper
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if writes(r) && !g.lease.Held() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, ErrNotHeld
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper lets others look through.
func (g guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// writes reports whether a request may change something. Git fetches with POST.
func writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.HasSuffix(r.URL.Path, "/git-upload-pack")
}
