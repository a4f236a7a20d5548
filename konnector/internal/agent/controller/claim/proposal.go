package claim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/choice"
)

const (
	// reviewPoll is about how long until it is asked again what became of a proposed change,
	// where no event tells.
	reviewPoll = time.Minute
	// mergedWait is how long where main has it and was not read since: no event need come of
	// that, as where it was taken back before.
	mergedWait = 5 * time.Second
)

// maxEmergency bounds the reason of an emergency in a commit, in characters.
const maxEmergency = 200

// proposal is what was proposed of an object, as an annotation of it keeps it.
type proposal struct {
	// UID is the object's: another life of it has proposed nothing.
	UID    types.UID `json:"uid"`
	Commit string    `json:"commit"`
	// Blob is Git's name of the file, "" for its removal, and Main that of the file that
	// main had then.
	Blob string `json:"blob,omitempty"`
	Main string `json:"main,omitempty"`
	// Says is Git's name of what the object said, without what main's file had beside that and
	// others may change. "" in what an older konnector proposed: Blob has both.
	Says string `json:"says,omitempty"`
	// Users are those whose change it is.
	Users []string `json:"users,omitempty"`
	// Begun says that another change was about to be pushed: what the branch has is not known.
	// If it was the first one, Commit is "".
	Begun bool `json:"begun,omitempty"`
}

// authorsOf are the users who have changed what the object says since main had it: those
// of what is proposed, too.
func authorsOf(u *unstructured.Unstructured) []string {
	users := ChangedBy(u)
	if p := proposalOf(u); p != nil {
		for _, user := range p.Users {
			if !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
	}
	return users
}

// proposalOf is nil where an object has none of its own.
func proposalOf(u *unstructured.Unstructured) *proposal {
	var p proposal
	value, ok := u.GetAnnotations()[v1alpha1.ProposalAnnotation]
	if !ok || json.Unmarshal([]byte(value), &p) != nil || p.UID != u.GetUID() || p.UID == "" {
		return nil
	}
	return &p
}

// lookAtReview finds out whether changes of the object are reviewed, and what was proposed.
func (r *reconciler) lookAtReview(ctx context.Context, l *look) error {
	f, api := &l.facts, l.api
	if l.object == nil {
		return nil
	}
	f.OnRejection = api.OnRejection
	f.Emergency = brief.Cut(brief.OneLine(l.object.GetAnnotations()[v1alpha1.EmergencyAnnotation]), maxEmergency)
	if f.Review = api.Review; !f.Review {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		err := r.cached.Get(ctx, client.ObjectKey{Name: l.key.Namespace}, namespace)
		if apierrors.IsNotFound(err) {
			// The cache may not know of it yet, and it may ask for reviews.
			err = r.live.Get(ctx, client.ObjectKey{Name: l.key.Namespace}, namespace)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get namespace of %s: %w", l.key, err)
		}
		f.Review = v1alpha1.Changes(namespace.Labels[v1alpha1.ChangesLabel]).Reviewed()
	}
	f.Unbinding = f.Terminating && api.Repository.Removals.IsUnbinding(api.Binding)
	p := proposalOf(l.object)
	if p == nil {
		return nil
	}
	f.Proposed = &decision.Proposed{Branch: contract.ChangeBranch(l.key), Commit: p.Commit, Blob: p.Blob, Main: p.Main, Begun: p.Begun}
	if l.reduced == nil && p.Blob != "" {
		encode := contract.Encode
		if p.Says == "" {
			encode = l.encode
		}
		data, err := encode(f.Live)
		f.Proposed.Live = err == nil && string(store.BlobHash(data)) == cmp.Or(p.Says, p.Blob)
	}
	if f.FileBlob != p.Main {
		// Somebody has merged it, or changed main beside it.
		var err error
		if l.approved, err = l.view.Continues(ctx, store.Hash(p.Commit)); err != nil {
			return err
		}
	}
	return nil
}

// askVerdict finds out what became of what was proposed.
func (r *reconciler) askVerdict(ctx context.Context, l *look) error {
	p, repo := l.facts.Proposed, l.api.Repository
	r.reviews.await(p.Branch, l.key)
	v, err := repo.Verdict(ctx, p.Branch, p.Commit)
	h := choice.HoldOf(l.object)
	rejected := h != nil && h.Reason == string(decision.Rejected)
	decided := rejected && choice.Taken(l.facts.Resolve, l.facts.Token(decision.Rejected), h.Choices) != ""
	switch {
	case err != nil && rejected && !decided:
		// That it was rejected stays true.
		return fmt.Errorf("ask what became of %s: %w", p.Branch, err)
	case err != nil && decided, v.State == decision.VerdictLost && rejected:
		// So it does where a person has decided, or the branch is not there any more.
		v = decision.Verdict{State: decision.VerdictClosed}
	case err != nil:
		// It is asked again. Until then nothing is known to have changed.
		ctrl.LoggerFrom(ctx).Info("verdict not known", "claim", l.key.String(), "error", err.Error())
		v = decision.Verdict{State: decision.VerdictUnknown}
	}
	if v.State == decision.VerdictMerged {
		seen, err := l.view.Continues(ctx, store.Hash(p.Commit))
		if err != nil {
			return err
		}
		if seen {
			v.State = decision.VerdictSeen
		}
	}
	l.facts.Verdict = &v
	return nil
}

// rebaseProposed takes what was proposed for what both sides agreed on: main had it.
func (l *look) rebaseProposed() {
	f := &l.facts
	f.BaseCommit, f.BaseCurrent = f.Proposed.Commit, true
	if f.Terminating {
		f.BaseRemoved = true
	} else {
		f.Base = f.Live
	}
	f.Proposed, f.OwnWork, f.Continues, f.HistoryTooLong = nil, decision.Unasked, decision.Unasked, false
}

// propose puts the object's version, or the removal of its file, on a branch.
func (r *reconciler) propose(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	c, p, err := l.proposalFor()
	if err == nil {
		err = errors.Join(l.api.Repository.MayWrite(), r.bytes.mayPush(l.key, c.size))
	}
	if err != nil {
		return nil, err
	}
	u, err := r.beginProposal(ctx, l)
	if err != nil {
		return nil, err
	}
	if u.GetGeneration() != l.object.GetGeneration() {
		// A webhook changed it, and that is to be proposed, too.
		return u, nil
	}
	branch, known := contract.ChangeBranch(l.key), store.Hash("")
	if was := l.facts.Proposed; was != nil && was.Main == p.Main {
		// What it stands on is what main says still.
		known = store.Hash(was.Commit)
	}
	var s *store.Snapshot
	err = r.counted(l, c, func() (err error) {
		s, err = l.api.Repository.Propose(ctx, branch, known, l.view.Main, l.edit(c))
		return err
	})
	switch {
	case errors.Is(err, store.ErrRejected) && l.facts.Proposed == nil:
		// Nothing is on the host: nothing has to be taken back there when the claim goes. A
		// note that stays does no harm, and why it stays would hide the host's refusal.
		_, _ = r.patch(ctx, u, metadata{proposal: new("")})
		return nil, fmt.Errorf("propose %s: %w", l.key, err)
	case err != nil:
		return nil, fmt.Errorf("propose %s: %w", l.key, err)
	}
	p.Commit = string(s.Head())
	value, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	r.recorder.Eventf(l.object, nil, corev1.EventTypeNormal, "Proposed", "Sync", "Proposed on branch %s: it waits for somebody's approval.", branch)
	return r.recordAfterPush(ctx, l, u, l.facts.Live, c.users, l.facts.Terminating, func(u *unstructured.Unstructured, m metadata) (*unstructured.Unstructured, error) {
		m.proposal = new(string(value))
		return r.patch(ctx, u, m)
	})
}

// proposalFor is the change to be proposed, and what is to be recorded of it, but for its commit.
func (l *look) proposalFor() (change, proposal, error) {
	c, p := change{verb: "delete"}, proposal{UID: l.object.GetUID(), Main: l.facts.FileBlob}
	c.apply = func(t *store.Tree) error {
		if _, ok := t.Entry(l.key.Path()); !ok {
			return nil
		}
		return t.Remove(l.key.Path())
	}
	if l.facts.Terminating {
		return c, p, nil
	}
	b := l.baseFor(l.facts.Live)
	data, err := l.encode(l.facts.Live)
	if err == nil {
		err = b.Fits(l.object.GetAnnotations())
	}
	if err != nil {
		return c, p, err
	}
	said, err := contract.Encode(l.facts.Live)
	if err != nil {
		return c, p, err
	}
	p.Says = string(store.BlobHash(said))
	p.Blob, p.Users = string(store.BlobHash(data)), authorsOf(l.object)
	c = change{verb: "update", users: p.Users, blob: p.Blob, size: packedSize(data), apply: func(t *store.Tree) error { return t.Write(l.key.Path(), data) }}
	if l.file == nil {
		c.verb = "create"
	}
	return c, p, nil
}

// beginProposal notes that something is about to be pushed to the claim's branch, and puts the
// finalizer on. Should nothing come to be recorded of it, the branch is proposed to again, or
// taken back, and not left for somebody to approve.
func (r *reconciler) beginProposal(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	p := proposalOf(l.object)
	switch {
	case p == nil:
		p = &proposal{UID: l.object.GetUID()}
	case p.Begun && l.facts.Finalizer:
		return l.object, nil
	}
	p.Begun = true
	value, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return r.patch(ctx, l.object, metadata{finalizer: true, proposal: new(string(value))})
}

// withdraw takes back what was proposed. A branch on which others have gone on stays.
func (r *reconciler) withdraw(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	if err := r.removeProposed(ctx, l); err != nil {
		return nil, err
	}
	return r.patch(ctx, l.object, metadata{proposal: new("")})
}

// removeProposed removes the branch of what was proposed, unless others have gone on with it.
// Somebody may have approved it meanwhile, which removes the branch, too: the error is errMoved
// where main has another file by then.
func (r *reconciler) removeProposed(ctx context.Context, l *look) error {
	repo, p := l.api.Repository, l.facts.Proposed
	var err error
	if p.Begun {
		err = repo.WithdrawOwn(ctx, p.Branch, l.view.Main)
	} else {
		err = repo.Withdraw(ctx, p.Branch, store.Hash(p.Commit))
	}
	if err != nil && !repository.IsKept(err) {
		return fmt.Errorf("withdraw %s: %w", p.Branch, err)
	}
	if err := r.confirmFile(ctx, l); err != nil {
		return err
	}
	r.reviews.end(p.Branch)
	return nil
}

// writeMerged makes the object say what both sides changed, with the file as base: what it
// says beyond that is proposed next.
func (r *reconciler) writeMerged(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	b := l.baseFor(l.facts.File)
	// It is to be proposed, though the konnector wrote it: see completeBase.
	b.Generation = 0
	value, err := b.Encode()
	if err != nil {
		return nil, err
	}
	u := l.object.DeepCopy()
	l.facts.Merged.WriteTo(u, l.api.schema.Keys())
	metadata{base: &value, resolve: l.resolved()}.writeTo(u)
	err = r.client.Update(ctx, u, fieldOwner)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return nil, l.refused(err, func(all *refusals, s metav1.Status) { all.merge = s.Message })
	}
	return u, err
}

// revert makes the object say what main says. Its own version is on the branch on which it
// was rejected.
func (r *reconciler) revert(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	lost := &decision.Lost{Reason: decision.Rejected, Branch: l.facts.Proposed.Branch}
	if l.decision.Chosen != "" {
		lost = nil
	}
	r.reviews.end(l.facts.Proposed.Branch)
	l.dropsProposal = true
	return r.write(ctx, l, lost)
}

// reviews are the claims of which something is proposed, by branch. They are known again
// after a restart, as each of them is looked at.
type reviews struct {
	mu   sync.Mutex
	keys map[string]contract.Key
}

func (w *reviews) await(branch string, key contract.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil {
		w.keys = map[string]contract.Key{}
	}
	w.keys[branch] = key
}

func (w *reviews) end(branch string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, branch)
}

// of are the claims of which something is proposed on a branch, or on any if that is
// contract.ChangesPrefix.
func (w *reviews) of(branch string) []contract.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if branch == contract.ChangesPrefix {
		return slices.Collect(maps.Values(w.keys))
	}
	if key, ok := w.keys[branch]; ok {
		return []contract.Key{key}
	}
	return nil
}
