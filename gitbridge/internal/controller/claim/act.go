package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/inputs"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/internal/tenant"
)

// outcome is what a step came to.
type outcome struct {
	// answer is the ClaimStatus, nil for none.
	answer *contract.Status
	// again asks for another step at once, failing for one after a while that
	// grows, and later for one after that long.
	again, failing bool
	later          time.Duration
	// wait says to answer nothing yet, and to look again after that long.
	wait time.Duration
	// inBackground says that nothing but the answer is to be done.
	inBackground bool
}

// act decides about a path, and does it.
func (c *Controller) act(ctx context.Context, s *step) (outcome, error) {
	d := decision.Decide(s.Facts)
	if d.Effect == decision.Ask {
		var err error
		if d, err = c.ask(ctx, s); err != nil {
			return outcome{}, err
		}
	}
	switch {
	case !s.Loss():
		c.losses.isThere(s.Path)
	case !decision.WasLost(s.Present):
		if wait, err := c.lose(ctx, s.Path); wait > 0 || err != nil {
			return outcome{wait: wait}, err
		}
	}
	switch d.Effect {
	case decision.Apply:
		return c.apply(ctx, s)
	case decision.Correct:
		return c.correct(ctx, s)
	case decision.Delete:
		return c.remove(ctx, s)
	case decision.Leave:
		return outcome{wait: lookUnwatched}, nil
	case decision.Hold:
		held := c.Session.Removals.HoldLeft(s.Path, s.Key.Binding)
		s.Removal = &held
		return outcome{answer: decision.Decide(s.Facts).Answer}, nil
	default:
		// What is said of a fight is taken back when it is over.
		_, rest := c.fights.Words(s.Path, c.Now())
		if isForeign(d.Answer) {
			rest = reconsiderForeign
		}
		if s.Access == decision.NotWatched && d.Answer != nil && d.Answer.Result != contract.Gone {
			// Where there is no object, nothing tells when it can be watched.
			rest = lookUnwatched
		}
		inBackground := d.Answer != nil && d.Answer.Result == contract.Invalid && !d.Again && rest == 0
		return outcome{answer: d.Answer, again: d.Again, later: rest, inBackground: inBackground}, nil
	}
}

// lookUnwatched is how often a claim is looked at whose kind cannot be watched, or whose answer
// cannot be read.
const lookUnwatched = time.Minute

// ask decides on what the API server itself has.
func (c *Controller) ask(ctx context.Context, s *step) (decision.Decision, error) {
	var err error
	if s.found, err = c.get(ctx, s); err != nil {
		return decision.Decision{}, err
	}
	s.Live, s.Certain = c.living(s.Key, s.found), true
	if s.Removal == nil && s.isRemoved() {
		// There is an object of which neither watching nor the present answer told.
		if err := c.findRemoval(ctx, s); err != nil {
			return decision.Decision{}, err
		}
	}
	return decision.Decide(s.Facts), nil
}

// get asks the API server itself for the object, nil if there is none.
func (c *Controller) get(ctx context.Context, s *step) (*unstructured.Unstructured, error) {
	u, err := c.fetch(ctx, s)
	if u == nil && err == nil {
		c.cache.gone(s.Path)
	}
	return u, err
}

func (c *Controller) fetch(ctx context.Context, s *step) (*unstructured.Unstructured, error) {
	u, err := c.BridgeObjects.Resource(s.api.Resource).Namespace(c.Session.Cluster.ClaimNamespace(s.Key.Namespace)).
		Get(ctx, s.Key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return u, err
}

// apply makes the object say what the file says.
func (c *Controller) apply(ctx context.Context, s *step) (outcome, error) {
	if s.found == nil {
		if err := c.checkStatus(ctx, s); err != nil {
			return outcome{}, err
		}
	}
	if o, ok := c.cache.refusal(s.Path, s.File.Applied, c.Now()); ok {
		o.answer = s.Refused(o.answer.Result, o.answer.Message, o.answer.Problem)
		return o, nil
	}
	if s.object == nil {
		entry, _ := s.view.Main.Entry(s.Path)
		if err := c.decode(s, entry); err != nil {
			return outcome{}, err
		}
		if s.object == nil {
			return outcome{answer: decision.Decide(s.Facts).Answer}, nil
		}
	}
	if o, done, err := c.judgePolicies(ctx, s); done {
		return o, err
	}
	if o, done, err := c.takeQuota(ctx, s); done {
		return o, err
	}
	if err := c.namespaces.ensure(ctx, s.Key.Namespace); err != nil {
		return c.refuse(ctx, s, err)
	}
	return c.send(ctx, s)
}

// checkStatus says that the branch status is not, or not any more, the one that says whether the
// object was there before: what is missing is not made on that ground.
func (c *Controller) checkStatus(ctx context.Context, s *step) error {
	err := c.Session.CheckStatus(ctx, s.Path)
	if entry, _ := c.Session.Status.Snapshot().Entry(contract.StatusPath(s.Path)); err == nil && entry.Hash != s.was {
		err = statusbranch.ErrOutdated
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", s.Key, err)
	}
	return nil
}

// send applies the object, with what it refers to.
func (c *Controller) send(ctx context.Context, s *step) (outcome, error) {
	// What it refers to is there before it is.
	in := c.bringInputs(ctx, s)
	switch {
	case s.found != nil:
	case in.Coming:
		return outcome{wait: in.Later}, nil
	case in.err != nil && !errors.Is(in.err, inputs.ErrMayNotList) && c.limiter.NumRequeues(s.Path) < inputsTries:
		return outcome{}, in.err
	}
	data, err := on(s.object, s.found).MarshalJSON()
	if err != nil {
		return outcome{}, err
	}
	u, err := c.patch(ctx, s, data)
	if isStale(err) {
		return c.applyAgain(ctx, s)
	}
	if apierrors.IsForbidden(err) {
		// Rights take a moment to reach the API server after they were granted,
		// and an error does not tell them from a policy's consent.
		switch allowed, askErr := c.mayApply(ctx, s); {
		case askErr != nil:
			return outcome{}, askErr
		case !allowed:
			err = errNoRights
		default:
			u, err = c.patch(ctx, s, data)
		}
	}
	if apierrors.IsInvalid(err) {
		u, err = c.applyEmptied(ctx, s, err)
	}
	if err != nil {
		return c.refuse(ctx, s, err)
	}
	c.fights.Applied(s.Path, drift.Found(u))
	live := c.living(s.Key, u)
	if live.Applied != s.File.Applied {
		return outcome{}, fmt.Errorf("apply %s: the API server answered with another object", s.Key)
	}
	if p := s.Present; !s.changed.IsZero() && (p == nil || p.Answers.Blob != s.File.Blob) {
		c.Metrics.Applied(time.Since(s.changed))
	}
	c.filledQuota(s, u)
	drift.Slim(u)
	c.cache.wasApplied(s.Path, u)
	return outcome{answer: s.Applied(live, s.File.Note)}, nil
}

// applyAgain decides on what is there, where watching was behind. It is tried once:
// what changes that often is looked at again later.
func (c *Controller) applyAgain(ctx context.Context, s *step) (outcome, error) {
	if s.Certain {
		return outcome{}, errStale
	}
	d, err := c.ask(ctx, s)
	switch {
	case err != nil:
		return outcome{}, err
	case d.Effect == decision.Apply:
		return c.apply(ctx, s)
	case isForeign(d.Answer):
		return outcome{answer: d.Answer, later: reconsiderForeign}, nil
	}
	return outcome{}, errStale
}

// reconsiderForeign is how often to look at an object that somebody else made and
// that watching does not show: it may be handed over, or go.
const reconsiderForeign = 5 * time.Second

func isForeign(s *contract.Status) bool { return s != nil && s.Reason == contract.Foreign }

// errStale says that an object is not as it was when it was decided on.
var errStale = errors.New("the object on the control plane changed meanwhile")

// isStale reports whether a write was refused because it was made on another
// state: also an object that was to be created and is there.
func isStale(err error) bool {
	if apierrors.IsConflict(err) {
		return !admission.Denied(err)
	}
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return apierrors.IsInvalid(err) && ok && cause.Field == "metadata.resourceVersion"
}

// on is an object to be applied on exactly what was found, or where nothing was.
// A bridge that was stopped between decision and write, and was replaced, can
// then not put an old version in the place of its successor's.
func on(object, found *unstructured.Unstructured) *unstructured.Unstructured {
	out := object.DeepCopy()
	if found == nil {
		// An API server creates with this version, and updates with none but
		// the present one.
		out.SetResourceVersion("0")
		return out
	}
	out.SetUID(found.GetUID())
	out.SetResourceVersion(found.GetResourceVersion())
	return out
}

// patch applies an object as the tenant, with metav1.DryRunAll to write nothing.
func (c *Controller) patch(ctx context.Context, s *step, data []byte, dryRun ...string) (*unstructured.Unstructured, error) {
	force := true
	return c.TenantObjects.Resource(s.api.Resource).Namespace(s.object.GetNamespace()).
		Patch(ctx, s.object.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
			FieldManager: tenant.FieldOwner, Force: &force, FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
		})
}

// errFileIsBack says that main has the file again.
var errFileIsBack = errors.New("the file came back meanwhile")

// errNotOurs says that an object does not carry the labels of the claim that it
// is to be deleted for.
var errNotOurs = errors.New("the object on the control plane does not carry this claim's labels")

// remove deletes the object of a claim whose file was removed.
func (c *Controller) remove(ctx context.Context, s *step) (outcome, error) {
	u, err := c.get(ctx, s)
	if err != nil {
		return outcome{}, err
	}
	if u == nil {
		// Watching will show it in a moment.
		return outcome{answer: s.Deleting(s.Live, ""), failing: true}, nil
	}
	s.found = u
	if to := c.movedTo(s); to != "" {
		held := c.Session.Removals.HoldMoved(s.Path, to)
		s.Removal = &held
		return outcome{answer: decision.Decide(s.Facts).Answer}, nil
	}
	if _, back := c.Session.View().Main.Entry(s.Path); back {
		return outcome{}, errFileIsBack
	}
	// The commit without the file is written down first: a later head that does
	// not have it is another history.
	if err := c.Session.Checkpoints.Save(ctx, s.view.Generation); err != nil {
		return outcome{}, fmt.Errorf("accept %s: %w", s.Head, err)
	}
	live := c.living(s.Key, u)
	if err := c.delete(ctx, s, u); err != nil {
		if admission.Stale(err) {
			return outcome{}, err
		}
		if apierrors.IsForbidden(err) && !admission.Denied(err) {
			// The tenant's rights here may have gone with a ClusterBinding of before.
			c.namespaces.forget(s.Key.Namespace)
			err = cmp.Or(c.namespaces.ensure(ctx, s.Key.Namespace), err)
		}
		return outcome{answer: s.Deleting(live, "it cannot be deleted yet: "+words(err)), failing: true}, nil
	}
	return outcome{answer: s.Deleting(live, "")}, nil
}

// delete deletes exactly the object that was read, and with it what it owns; with
// metav1.DryRunAll nothing.
func (c *Controller) delete(ctx context.Context, s *step, u *unstructured.Unstructured, dryRun ...string) error {
	id, key, ok := tenant.Origin(s.Key.Binding, u.GetNamespace(), u.GetName(), u.GetLabels())
	if !ok || id != c.Session.Cluster.ID || key != s.Key {
		return errNotOurs
	}
	uid, version, foreground := u.GetUID(), u.GetResourceVersion(), metav1.DeletePropagationForeground
	return c.TenantObjects.Resource(s.api.Resource).Namespace(u.GetNamespace()).Delete(ctx, u.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &foreground, DryRun: dryRun,
	})
}
