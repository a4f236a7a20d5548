package claim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
)

const (
	// unsentWait is about how long until a push is tried again that the Git
	// host did not take. When it can be reached again is told before that.
	unsentWait = 10 * time.Second
	// A push that the Git host's rules refused is tried again after rejectedWait,
	// then after twice that, and so on up to mostRejectedWait: rules change, and a
	// hook may have failed for another reason.
	rejectedWait, mostRejectedWait = time.Second, 10 * time.Minute
	// refusedWait is how long until the API server is asked again to take a
	// file: rules that do not come with the object may have changed.
	refusedWait = time.Minute
	// bytesWait is about how long until a claim asks again whether its namespace may bring
	// more to Git: few ask at once then, of however many that wait.
	bytesWait = time.Minute
	// unservedWait is how long until API server and konnector may go by the same
	// definition.
	unservedWait = 500 * time.Millisecond
	// untoldEvery is how often it is logged that claims of a namespace cannot be looked at.
	untoldEvery = time.Minute
)

// failed reports what keeps an action from being done.
func (r *reconciler) failed(ctx context.Context, l *look, err error) (ctrl.Result, error) {
	if !isTrouble(err) {
		return ctrl.Result{}, err
	}
	// What cannot be committed is no reason for a service's credentials to be old.
	if err := r.secrets.deliver(ctx, l); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.report(ctx, l, err); err != nil && !errors.Is(err, errMoved) {
		return ctrl.Result{}, err
	}
	r.awaitOpener(l)
	result, err := r.trouble(l.key, err)
	return l.whenDue(result), err
}

// unlooked is trouble where a claim cannot even be looked at, so that its status does not say why.
func (r *reconciler) unlooked(ctx context.Context, key contract.Key, err error) (ctrl.Result, error) {
	result, again := r.trouble(key, err)
	if again != nil || errors.Is(err, errRedefined) || errors.Is(err, repository.ErrNotContacted) {
		// It is logged by who is given it, passes in a moment, or the Connection tells of it.
		return result, again
	}
	if r.untold.Take(contract.Key{Binding: key.Binding, Namespace: key.Namespace}, 1, time.Now()) {
		ctrl.LoggerFrom(ctx).Info("claim cannot be looked at", "claim", key.String(), "error", err.Error())
	}
	return result, nil
}

// isTrouble reports whether an error is for a claim's owner to know, as opposed
// to one of this cluster's API server.
func isTrouble(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) && !errors.Is(err, context.Canceled)
}

// trouble waits for what will pass, and lets go of what will not.
func (r *reconciler) trouble(key contract.Key, err error) (ctrl.Result, error) {
	switch {
	case errors.Is(err, errRedefined):
		return ctrl.Result{RequeueAfter: jitter(unservedWait)}, nil
	case !isTrouble(err):
		return ctrl.Result{}, err
	case errors.Is(err, errTooLarge):
		return ctrl.Result{}, nil
	case errors.Is(err, errManyBytes):
		r.numbers.Is(nameOf(key), "Waiting", "")
		return ctrl.Result{RequeueAfter: jitter(bytesWait)}, nil
	case errors.Is(err, repository.ErrNotTried):
		r.numbers.Is(nameOf(key), "Rejected", "")
		r.pending.add(key)
		return ctrl.Result{RequeueAfter: jitter(unsentWait)}, nil
	case errors.Is(err, store.ErrRejected):
		r.numbers.Is(nameOf(key), "Rejected", "")
		return ctrl.Result{RequeueAfter: jitter(r.rejected.When(key))}, nil
	}
	r.pending.add(key)
	return ctrl.Result{RequeueAfter: jitter(unsentWait)}, nil
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// explain gives the reason and the words for a condition.
func explain(err error) (reason, message string) {
	var denied *deniedError
	if errors.As(err, &denied) {
		return "Denied", "This cluster's API server does not let the konnector write to this object: " + strings.TrimRight(denied.words, ".") + ". It is tried again by itself."
	}
	if errors.Is(err, errTooLarge) {
		return "TooLarge", "This claim is " + err.Error() + "."
	}
	if errors.Is(err, errManyBytes) {
		return "ManyBytes", fmt.Sprintf("The claims of this namespace have brought %d MiB to Git in a short time, and go on at %d MiB a minute. It is tried again by itself.", maxBytes>>20, bytesPerMinute>>20)
	}
	return repository.Explain(err)
}
