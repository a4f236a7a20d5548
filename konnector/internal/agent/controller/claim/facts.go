package claim

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/merge"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/base"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// look is what is known of one claim at one moment, and what follows from it.
type look struct {
	// api is the API as it was then.
	api    *API
	key    contract.Key
	object *unstructured.Unstructured
	// reduced is what the cache has of the object, where that is not all of it: object
	// has no spec then. It is nil where object is whole.
	reduced *cachedClaim
	base    *base.Base
	view    repository.View
	// file is the entry on main; nil when there is none.
	file *store.Entry
	// says is the file as it is written, without defaults; nil when it is the one
	// that the base was made from, or cannot be read.
	says *contract.Claim
	// answer is the control plane's; nil when there is none.
	answer *contract.Status
	// admitted is the object's state, where that is what the konnector's own write left
	// behind; "" otherwise.
	admitted string
	// refusals are what the API server has said a moment ago.
	refusals refusals
	facts    decision.Facts
	decision decision.Decision
	// approved says that main has the commit that was proposed.
	approved bool
	// pushed is how many bytes of the claim's file were brought to Git, as byteBudget counts them.
	pushed int
	// dropsProposal says that what was proposed is settled with the next write.
	dropsProposal bool
	// secrets is what there is to say of the claim's Secrets, and secretsDue when to
	// look at them again. Unopened says that another opener may open one.
	secrets    secretsSaid
	secretsDue time.Time
	unopened   bool
	// inputs is what there is to say of what the claim refers to.
	inputs sentInputs
}

// input is what to look at: what the cache has, to find out whether there is
// anything to do, or what the API server has, before anything is done.
type input struct {
	client.Reader
	object *unstructured.Unstructured
	// reduced is set where object is not whole. cached says that it is the cache's,
	// which has no managed fields.
	reduced *cachedClaim
	cached  bool
	// abridged says that not even a look can be taken at what the cache has, and size is
	// how many bytes the whole object or its file has, as far as that is known.
	abridged bool
	size     int
	// refusal is why the API server did not take the file a moment ago, if it
	// did not.
	refusal *refusedError
}

// look gathers facts of one moment, and decides.
func (r *reconciler) look(ctx context.Context, key contract.Key, in input) (*look, error) {
	return repository.UntilCurrent(ctx, func() (*look, error) { return r.lookOnce(ctx, key, in) })
}

// lookOnce is look, with repository.ErrOutdated where main has moved on meanwhile.
func (r *reconciler) lookOnce(ctx context.Context, key contract.Key, in input) (*look, error) {
	api := r.api()
	view, err := api.Repository.View(ctx)
	if err != nil {
		return nil, err
	}
	l := &look{api: api, key: key, object: in.object, reduced: in.reduced, view: view}
	if in.refusal != nil {
		l.refusals = in.refusal.refusals
	}
	l.facts = decision.Facts{
		Key: key, Unfit: key.Validate(), Replaced: view.Replaced, Copied: view.Copied, Writer: api.Writer,
		Refusal: l.refusals.file, MergeRefusal: l.refusals.merge, LostRefusal: l.refusals.lost, NamespaceMissing: l.refusals.noNamespace,
	}
	if repo := api.Repository; !repo.Serves(key.Namespace) {
		l.facts.Elsewhere = fmt.Sprintf("Namespace %s is not among spec.namespaces of Connection %s: nothing is committed or created for it.", key.Namespace, repo.Connection)
	}
	if err := r.lookAtObject(ctx, l, in); err != nil {
		return nil, err
	}
	l.lookAtFile()
	if err := r.lookAtReview(ctx, l); err != nil {
		return nil, err
	}
	if entry, ok := view.Status.Entry(key.Path()); ok && view.StatusReplaced == "" {
		l.answer, err = r.answers.Decode(string(entry.Hash), func() ([]byte, error) { return view.Status.Read(entry.Path) })
		if err != nil {
			// As good as none: what is wrong there is not for this cluster to say.
			l.answer = nil
		}
	}
	if err := r.lookAtBudget(l, in); err != nil {
		return nil, err
	}
	return l, r.decide(ctx, l)
}

func (r *reconciler) lookAtObject(ctx context.Context, l *look, in input) error {
	switch {
	case l.object == nil:
		return nil
	case in.abridged:
		return errIncomplete
	}
	schema, f := l.api.schema, &l.facts
	var live *contract.Claim
	if l.reduced == nil {
		live = contract.FromObject(l.object)
		switch known := schema.Knows(live); {
		case !known && in.cached:
			return errIncomplete
		case !known:
			return errRedefined
		}
	}
	annotations := l.object.GetAnnotations()
	f.UID, f.Resolve = string(l.object.GetUID()), annotations[v1alpha1.ResolveAnnotation]
	f.Paused = annotations[v1alpha1.PauseAnnotation] == "true"
	f.Finalizer = controllerutil.ContainsFinalizer(l.object, v1alpha1.Finalizer)
	var err error
	if l.base, err = r.baseOf(ctx, l.key, l.object); err != nil {
		return err
	}
	f.BaseCommit = base.AgreedAt(l.object)
	if l.base != nil && live != nil && l.base.Generation == l.object.GetGeneration() {
		l.base = l.base.WithDefaultsOf(live)
	}
	if l.base != nil {
		f.Base = schema.Normalize(l.base.Claim)
		f.BaseCommit, f.BaseRemoved, f.Lost = l.base.Commit, l.base.Removed, l.base.Lost
		f.Touched = l.base.Generation != l.object.GetGeneration() || l.isTouched()
		if l.base.Connection == l.api.Repository.ConnectionUID {
			if f.BaseCurrent, err = l.view.StillAgreed(ctx, store.Hash(l.base.Commit)); err != nil {
				return err
			}
		}
	}
	switch {
	case live != nil:
		f.Live = schema.Normalize(live)
	case f.Base == nil:
		return errIncomplete
	default:
		f.Live = f.Base
		if lacks, err := l.reduced.lacks(schema.Keys()); err != nil {
			return err
		} else if lacks {
			return errIncomplete
		}
	}
	if err := r.completeBase(l, in); err != nil {
		return err
	}
	if l.object.GetDeletionTimestamp() == nil {
		return nil
	}
	f.Terminating = true
	return r.lookAtEnding(ctx, l, in)
}

// lookAtFile reads the file, unless it is the one that the base was made from.
func (l *look) lookAtFile() {
	entry, ok := l.view.Main.Entry(l.key.Path())
	if !ok {
		return
	}
	l.file, l.facts.FileBlob = &entry, string(entry.Hash)
	if l.base != nil && l.base.Blob == string(entry.Hash) {
		l.facts.File, l.facts.Problem = l.unchangedFile()
		return
	}
	c, err := l.readFile()
	if err != nil {
		l.facts.Problem = err
		return
	}
	l.says = c
	if l.base != nil {
		c = l.base.Complete(c)
	}
	l.facts.File = l.api.schema.Normalize(c)
}

// readFile is the file as it is, with what does not travel.
func (l *look) readFile() (*contract.Claim, error) {
	f, err := facts.File(l.view.Main, *l.file)
	if err != nil {
		return nil, err
	}
	return contract.Decode(f, l.api.schema.Kind())
}

// decide answers the questions that a decision has.
func (r *reconciler) decide(ctx context.Context, l *look) error {
	for {
		l.decision = decision.For(l.facts)
		switch l.decision.Action {
		case decision.Rebase:
			// That is what happened, so it holds from now on. It is written
			// together with what follows from it.
			l.facts.Base, l.facts.OwnWork = l.facts.File, decision.Unasked
			continue
		case decision.RebaseProposed:
			l.rebaseProposed()
			continue
		case decision.Ask:
		default:
			return nil
		}
		if err := r.answer(ctx, l); err != nil {
			return err
		}
	}
}

// answer finds out what a decision asks for.
func (r *reconciler) answer(ctx context.Context, l *look) error {
	repo := l.api.Repository
	var yes bool
	var err error
	switch l.decision.Question {
	case decision.AskOwnWork:
		err = r.askOwnWork(ctx, l)
	case decision.AskContinues:
		yes, err = l.view.Continues(ctx, store.Hash(l.facts.BaseCommit))
		l.facts.Continues = answerOf(yes && (l.base == nil || l.facts.BaseCurrent))
		l.facts.HistoryTooLong = l.facts.HistoryTooLong || l.view.IsTooFar(store.Hash(l.facts.BaseCommit))
	case decision.AskGone:
		yes, err = l.gone(ctx)
		l.facts.Gone = answerOf(yes)
	case decision.AskMerge:
		l.askMerge()
	case decision.AskFlips:
		err = l.flips(ctx)
	case decision.AskVerdict:
		err = r.askVerdict(ctx, l)
	case decision.AskRemoval:
		var v guard.Verdict
		v, err = repo.Removals.Judge(ctx, l.key, !l.facts.Terminating)
		l.facts.Removal = &v
	default:
		return fmt.Errorf("decide on %s: no answer to %s", l.key, l.decision.Question)
	}
	return err
}

// askMerge looks whether both sides changed other fields.
func (l *look) askMerge() {
	f := &l.facts
	merged, fields := merge.Claims(l.api.spec, f.Base, f.Live, f.File)
	f.Merges, f.Fields = answerOf(len(fields) == 0), fields
	f.Merged = l.api.schema.Normalize(merged)
}

func answerOf(yes bool) decision.Answer {
	if yes {
		return decision.Yes
	}
	return decision.No
}

func baseCommit(b *base.Base) store.Hash {
	if b == nil {
		return ""
	}
	return store.Hash(b.Commit)
}

// gone reports whether nothing of a claim, whose file is not on main, is left on
// the control plane. Either it says so of this object; or of this path, after a
// removal that came later than the version that this object had in Git, which is
// how a claim ends that only pull requests ever touched; or it never heard of it
// and has answered main as it is.
func (l *look) gone(ctx context.Context) (bool, error) {
	if l.view.StatusReplaced != "" {
		// It may be older than the object, or another cluster's.
		return false, nil
	}
	switch {
	case l.answer == nil:
		return l.allAnswered(ctx)
	case l.answer.Result != contract.Gone:
		return false, nil
	case types.UID(l.answer.UID) == l.object.GetUID():
		return true, nil
	}
	follows, err := l.api.Repository.Lineage.Follows(ctx, store.Hash(l.facts.BaseCommit), store.Hash(l.answer.Answers.Commit))
	if err != nil || follows {
		return follows, err
	}
	// It is about an object of this name that was here before. One that was
	// deleted before it was ever committed gets no other.
	return l.allAnswered(ctx)
}

// allAnswered reports whether the control plane has answered main as it is, and
// knows what this object had in Git.
func (l *look) allAnswered(ctx context.Context) (bool, error) {
	data, err := l.view.Status.Read(contract.ObservedPath)
	if err != nil {
		return false, nil
	}
	observed, err := contract.DecodeObserved(data)
	if err != nil || observed.Commit == "" || observed.Commit != string(l.view.Main.Head()) {
		return false, nil
	}
	if l.base == nil {
		return true, nil
	}
	// One that knows nothing of this main's past may know nothing of the service.
	return l.view.Continues(ctx, baseCommit(l.base))
}

// mayBeAnother reports whether the control plane may know the claim by the UID of
// another object: of this one no commit told it.
func (l *look) mayBeAnother() bool {
	return l.base != nil && (!l.base.Committed || l.base.Connection != l.api.Repository.ConnectionUID)
}
