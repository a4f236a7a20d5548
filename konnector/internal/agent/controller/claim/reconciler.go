package claim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/objectwatch"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/metrics"
	"gitbind.dev/konnector/internal/agent/repository"
)

// maxRounds is how often one run looks and acts. Two are the rule: an action, and the
// status.
const maxRounds = 8

// reconciler keeps the claims of one API in step.
type reconciler struct {
	current atomic.Pointer[API]
	// claims are what the cache has of this API's objects. Of others, cached reads
	// from the cache, and live from the API server.
	claims       cachedClaims
	cached, live client.Reader
	client       client.Client
	recorder     events.EventRecorder
	// pending are claims to look at again when the control plane has seen a
	// newer main, or the repository can be used again.
	pending keys
	written *written
	answers contract.Statuses
	// reports are slots to write a status in, enqueue calls who waits for one.
	reports slots
	enqueue func(contract.Key)
	// forbidden is called when the API server says that something is.
	forbidden func()
	// waiting are claims whose answer from the control plane is due any moment.
	waiting waits
	held    *heldFiles
	secrets secretDelivery
	inputs  inputSender
	work    shutdownLatch
	// fromCache is from when on the cache may be committed from.
	fromCache watermark
	// rejected says when a push that was refused is tried again.
	rejected workqueue.TypedRateLimiter[contract.Key]
	reviews  reviews
	admitted admitted
	// writes and statuses bound what is done for one claim.
	writes, statuses budget.Budget
	// untold bounds what is logged of the claims of a namespace.
	untold budget.Budget
	*common
	// large is the room for looks at large claims.
	large *semaphore.Weighted
	// numbers may be nil.
	numbers *metrics.KonnectorBinding
}

func (r *reconciler) api() *API { return r.current.Load() }

// Reconcile brings one claim in step.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	if !r.work.enter() {
		return ctrl.Result{}, nil
	}
	defer r.work.leave()
	defer func() {
		if apierrors.IsForbidden(err) {
			r.forbidden()
		}
	}()
	key := contract.Key{Binding: r.api().Binding, Namespace: req.Namespace, Name: req.Name}
	defer func() {
		for _, next := range r.reports.next() {
			r.enqueue(next)
		}
	}()
	in, err := r.newest(key)
	if err != nil {
		return ctrl.Result{}, err
	}
	room := &largeLook{room: r.large}
	defer room.end()
	if !room.takes(in.size) {
		return ctrl.Result{RequeueAfter: jitter(largeWait)}, nil
	}
	l, err := r.look(ctx, key, in)
	switch {
	case errors.Is(err, errIncomplete):
	case err != nil:
		return r.unlooked(ctx, key, err)
	case l.settled():
		// The cache will do for what the API server takes only from somebody who
		// knows the newest version.
		result, err := r.settle(ctx, l, settleOptions{})
		var refusal *refusedError
		if !errors.Is(err, errMoved) && !errors.Is(err, errIncomplete) && !errors.As(err, &refusal) {
			return result, err
		}
	case l.decision.Action == decision.Create:
		// If it is there after all, it cannot be created.
		return r.bringInStep(ctx, key, nil)
	case l.decision.Action == decision.Commit && l.reduced == nil:
		// What was changed since is found when the base is recorded, and is the next
		// commit.
		recent, err := r.fromCache.precedes(ctx, r.live, l.api.Kind, l.object)
		if err != nil {
			return ctrl.Result{}, err
		}
		if recent {
			return r.bringInStep(ctx, key, l.object)
		}
	}
	// The cache may be behind, also behind what a process wrote that led before this
	// one. What is pushed to Git is not guarded by a resourceVersion, so nothing else
	// than the above is done on the cache's word.
	object, err := r.get(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if object != nil && !room.takes(sizeOf(object.Object)) {
		return ctrl.Result{RequeueAfter: jitter(largeWait)}, nil
	}
	return r.bringInStep(ctx, key, object)
}

// newest is the newer one of what the cache has of an object and what this process
// wrote to it.
func (r *reconciler) newest(key contract.Key) (input, error) {
	in := input{Reader: r.cached, cached: true}
	c, err := r.claims.get(key)
	if err != nil {
		return in, err
	}
	if e, ok := r.api().Repository.Remote.Main.Snapshot().Entry(key.Path()); ok {
		in.size = int(e.Size)
	}
	if c != nil {
		in.size = max(in.size, int(c.size))
	}
	if in.object = r.written.newer(key, c); in.object != nil || c == nil {
		return in, nil
	}
	if c.reduced {
		in.reduced = c
	}
	in.abridged = c.abridged
	in.object, err = c.object()
	return in, err
}

// bringInStep looks and acts until there is nothing left to do.
func (r *reconciler) bringInStep(ctx context.Context, key contract.Key, object *unstructured.Unstructured) (ctrl.Result, error) {
	var refusal *refusedError
	created := false
	for range maxRounds {
		l, err := r.look(ctx, key, input{Reader: r.live, object: object, refusal: refusal})
		if err != nil {
			return r.unlooked(ctx, key, err)
		}
		if l.settled() {
			var result ctrl.Result
			if result, err = r.settle(ctx, l, settleOptions{refusal: refusal, now: created}); err == nil {
				return result, nil
			}
		} else {
			if object, err = r.act(ctx, l); err == nil {
				r.numbers.Did(string(l.decision.Action))
			}
			r.spend(l, err)
		}
		if err == nil && l.decision.Action == decision.Create {
			// Its status makes its base count.
			created = true
			var cancel context.CancelFunc
			ctx, cancel = finish(ctx)
			defer cancel()
		}
		switch {
		case err == nil:
		case errors.Is(err, errMoved):
			if object, err = r.get(ctx, key); err != nil {
				return ctrl.Result{}, err
			}
		case errors.As(err, &refusal):
			object = l.object
		case errors.Is(err, objectwatch.ErrNotKnown):
			// It is called when it is known.
			return ctrl.Result{RequeueAfter: jitter(unsentWait)}, nil
		case errors.Is(err, errUnserved):
			return ctrl.Result{RequeueAfter: jitter(unservedWait)}, nil
		default:
			return r.failed(ctx, l, err)
		}
	}
	return ctrl.Result{RequeueAfter: time.Second}, nil
}

// maxReports is how many statuses are written at once: as many as an API server
// with time on its hands takes in some milliseconds, and few beside those that
// people keep it busy with.
const maxReports = 4

// answerTimeout is how long the control plane has for its answer, until the app
// cluster is told that it is waited for. It mostly comes before, and then the status
// is written once for one change.
const answerTimeout = time.Second

// settleOptions are how a claim came to be settled.
type settleOptions struct {
	refusal *refusedError
	// now says that the status must not wait.
	now bool
}

// settle says what there is to say where nothing else is to be done.
func (r *reconciler) settle(ctx context.Context, l *look, o settleOptions) (_ ctrl.Result, err error) {
	defer func() {
		if err == nil {
			r.written.settle(l.key)
		}
	}()
	if l.reduced != nil && l.view.StatusReplaced != "" {
		// What the control plane said last is kept, and only the object has it.
		return ctrl.Result{}, errIncomplete
	}
	if result, done, err := r.settledInputs(ctx, l, o.now); done {
		return result, err
	}
	undelivered := r.secrets.deliver(ctx, l)
	if undelivered != nil && !o.now {
		return ctrl.Result{}, undelivered
	}
	if !l.statusDiffers(nil) {
		r.waiting.end(l.key)
		return r.finished(l, o.refusal), undelivered
	}
	if rest := r.statuses.Rest(l.key, time.Now()); rest > 0 {
		return ctrl.Result{RequeueAfter: rest}, nil
	}
	if o.refusal == nil && !o.now && l.answerIsDue() {
		if rest := r.waiting.rest(l.key, string(l.file.Hash), answerTimeout); rest > 0 {
			return ctrl.Result{RequeueAfter: rest}, nil
		}
	}
	if !o.now && o.refusal == nil {
		if !r.reports.take(l.key) {
			return ctrl.Result{}, nil
		}
		defer r.reports.end()
	}
	if err := r.report(ctx, l, nil); err != nil {
		return ctrl.Result{}, err
	}
	r.waiting.end(l.key)
	return r.finished(l, o.refusal), undelivered
}

// finishTime is how long a process that is to end may take to keep what it has
// begun together.
const finishTime = 5 * time.Second

// finish is for the writes that complete another one: it ends a while after ctx.
// An API server that is slow is no reason to leave them out.
func finish(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })
	return last, func() {
		stop()
		cancel()
	}
}

// settled reports whether there is nothing to do but to say so.
func (l *look) settled() bool {
	switch l.decision.Action {
	case decision.Nothing, decision.Wait, decision.Hold, decision.AwaitReview:
		return true
	}
	return false
}

// finished keeps what must be looked at again though neither the object nor the
// file changes, and what has no object to be shown on.
func (r *reconciler) finished(l *look, refusal *refusedError) ctrl.Result {
	d := l.decision
	r.awaitOpener(l)
	r.count(l)
	r.rejected.Forget(l.key)
	if l.object == nil {
		l.api.Repository.Doubts.End(l.key)
	}
	if (l.object == nil || l.facts.NamespaceMissing) && d.Action == decision.Hold {
		r.held.set(l.key, d)
	} else {
		r.held.clear(l.key)
	}
	if d.Action == decision.Wait || d.Reason == decision.CommitLost || d.Reason == decision.HistoryTooLong || d.Reason == decision.ManyRemovals || d.Reason == decision.Moved || l.view.IsHeld() {
		r.pending.add(l.key)
		// What it waits for may have come before it was on the list.
		repo := l.api.Repository
		if repo.Remote.Status.Snapshot().Head() != l.view.Status.Head() || repo.Remote.Main.Snapshot().Head() != l.view.Main.Head() {
			return ctrl.Result{RequeueAfter: time.Millisecond}
		}
	}
	if refusal != nil {
		return ctrl.Result{RequeueAfter: jitter(refusedWait)}
	}
	switch v := l.facts.Verdict; {
	case v == nil:
	case v.State == decision.VerdictMerged:
		return ctrl.Result{RequeueAfter: jitter(mergedWait)}
	default:
		return ctrl.Result{RequeueAfter: jitter(reviewPoll)}
	}
	return l.whenDue(ctrl.Result{})
}

// whenDue is a result that comes no later than what is due of the claim's Secrets and inputs.
func (l *look) whenDue(result ctrl.Result) ctrl.Result {
	for _, due := range []time.Time{l.secretsDue, l.inputs.due} {
		if due.IsZero() {
			continue
		}
		if wait := max(time.Until(due), time.Millisecond); result.RequeueAfter == 0 || wait < result.RequeueAfter {
			result.RequeueAfter = wait
		}
	}
	return result
}

// awaitOpener has a claim looked at when there is another opener, if that may open more.
func (r *reconciler) awaitOpener(l *look) {
	if l.unopened {
		r.pending.add(l.key)
	}
}

// count keeps the numbers of claims by where they are.
func (r *reconciler) count(l *look) {
	key := nameOf(l.key)
	switch d := l.decision; {
	case d.Action == decision.Hold:
		r.numbers.Is(key, "Held", string(d.Reason))
	case d.Action == decision.AwaitReview:
		r.numbers.Is(key, "AwaitingReview", "")
	case d.Action == decision.Wait:
		r.numbers.Is(key, "Waiting", "")
	case l.object == nil:
		r.numbers.Is(key, "", "")
	default:
		r.numbers.Is(key, "InSync", "")
	}
}

func nameOf(key contract.Key) string { return key.Namespace + "/" + key.Name }

// get reads an object from the API server; nil for none.
func (r *reconciler) get(ctx context.Context, key contract.Key) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(r.api().Kind)
	err := r.live.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, u)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return u, nil
}

// errMoved says that something is not any more what was decided on.
var errMoved = repository.ErrMoved

// errIncomplete says that the cache does not have all that is needed of an object.
var errIncomplete = errors.New("the cache does not have all of the object")

// errUnserved says that the API server does not know yet what is in the
// definition, errRedefined that the object has what the definition did not have when
// the konnector read it.
var errUnserved, errRedefined = errors.New("not served yet"), errors.New("the definition has changed")
