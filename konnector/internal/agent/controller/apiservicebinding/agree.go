package apiservicebinding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/status"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/agent/request"
)

// errMoved says that something is not any more what was decided on.
var errMoved = repository.ErrMoved

// maxSteps is how often one run looks and acts on a request. Few are the rule.
const maxSteps = 8

// agree brings a binding and its request in step, and returns what is left to be
// done.
func (r *Reconciler) agree(ctx context.Context, b *v1alpha1.APIServiceBinding) (*look, error) {
	l, err := r.lookAt(ctx, b)
	if err != nil || !l.agreeing() && !l.facts.Terminating {
		return l, err
	}
	// The cache may be behind what this very process wrote, and what is pushed to
	// Git is not guarded by a resourceVersion.
	live := &v1alpha1.APIServiceBinding{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b), live); err != nil {
		return nil, fmt.Errorf("get binding: %w", err)
	}
	for range maxSteps {
		if l, err = r.lookAt(ctx, live); err != nil || !l.agreeing() {
			return l, err
		}
		if err := r.agreeOn(ctx, l); err != nil || l.trouble != nil || l.released {
			return l, err
		}
	}
	return nil, errMoved
}

// agreeing reports whether the binding and its request are not in step.
func (l *look) agreeing() bool {
	switch l.action {
	case request.Adopt, request.Commit, request.Write, request.Record, request.RecordRemoved, request.Delete, request.Release:
		return true
	}
	return false
}

// agreeOn does one step. It changes the binding that was looked at.
func (r *Reconciler) agreeOn(ctx context.Context, l *look) error {
	b := l.binding
	if l.action != request.Adopt {
		if err := l.confirmFile(ctx); err != nil || l.trouble != nil {
			return err
		}
	}
	switch l.action {
	case request.Adopt:
		if err := r.keepRights(ctx, b.Name); err != nil {
			return err
		}
		before := b.DeepCopy()
		controllerutil.AddFinalizer(b, v1alpha1.BindingFinalizer)
		return r.Client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	case request.Commit:
		return r.commit(ctx, l)
	case request.Write:
		// What users changed here is not in the file, and who did is no author of it.
		delete(b.Annotations, v1alpha1.ChangedByAnnotation)
		b.Spec.Template, b.Spec.DeletionPolicy = l.facts.File.Template, v1alpha1.DeletionPolicy(l.facts.File.DeletionPolicy)
		if err := r.Client.Update(ctx, b); err != nil {
			return err
		}
		return r.record(ctx, l, *l.facts.File, string(l.view.Main.Head()), l.file)
	case request.Record:
		if err := r.credit(ctx, b, claim.ChangedBy(b)); err != nil {
			return err
		}
		return r.record(ctx, l, *l.facts.File, string(l.view.Main.Head()), l.file)
	case request.RecordRemoved:
		return r.recordRemoved(ctx, b)
	case request.Delete:
		return r.delete(ctx, l)
	default:
		// Nothing is taken back, also what was on its way.
		if err := r.keepRights(ctx, b.Name); err != nil {
			return err
		}
		return r.letGoOf(ctx, l)
	}
}

// commit puts what the binding asks for into its file.
func (r *Reconciler) commit(ctx context.Context, l *look) error {
	data, err := contract.EncodeRequest(*l.facts.Live)
	if err != nil {
		return err
	}
	if err := r.recordPushing(ctx, l, store.BlobHash(data)); err != nil {
		return err
	}
	users := claim.ChangedBy(l.binding)
	s, err := r.push(ctx, l, "request", users, func(t *store.Tree) error { return t.Write(contract.RequestPath(l.binding.Name), data) })
	if err != nil || l.trouble != nil {
		return err
	}
	entry, ok := s.Entry(contract.RequestPath(l.binding.Name))
	if !ok {
		return errMoved
	}
	if err := r.credit(ctx, l.binding, users); err != nil {
		return err
	}
	return r.record(ctx, l, *l.facts.Live, string(s.Head()), &entry)
}

// creditTries is how often the list of users is tried to be written beside
// others' writes.
const creditTries = 5

// credit takes users whose change is in Git off the list of those who changed a
// binding since. It brings the binding up to date.
func (r *Reconciler) credit(ctx context.Context, b *v1alpha1.APIServiceBinding, users []string) error {
	for try := 0; len(users) > 0; try++ {
		before := b.DeepCopy()
		rest := slices.DeleteFunc(claim.ChangedBy(b), func(user string) bool { return slices.Contains(users, user) })
		delete(b.Annotations, v1alpha1.ChangedByAnnotation)
		if len(rest) > 0 {
			b.Annotations[v1alpha1.ChangedByAnnotation] = strings.Join(rest, "\n")
		}
		err := r.Client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !admission.Stale(err) || try == creditTries {
			return err
		}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		again := b.Spec.Template != before.Spec.Template || b.Spec.DeletionPolicy != before.Spec.DeletionPolicy
		if b.UID != before.UID || again && len(claim.ChangedBy(b)) <= len(users) {
			// One of them changed it again: a change was made by somebody.
			return nil
		}
	}
	return nil
}

// push commits to main what users changed, if the file is still the one that was
// decided on. What keeps the Git host from taking it is the look's trouble.
func (r *Reconciler) push(ctx context.Context, l *look, verb string, users []string, apply func(*store.Tree) error, more ...store.Trailer) (*store.Snapshot, error) {
	path := contract.RequestPath(l.binding.Name)
	authors := claim.Authors(users, l.repo.ClusterID)
	s, err := l.repo.Update(ctx, store.Edit{
		Author: authors[0], CoAuthors: authors[1:],
		Subject:  fmt.Sprintf("binding: %s %s", verb, l.binding.Name),
		Trailers: append([]store.Trailer{{Key: contract.TrailerCluster, Value: l.repo.ClusterID}}, more...),
		Apply: func(t *store.Tree) error {
			if entry, ok := t.Entry(path); !repository.IsFile(entry, ok, l.file) {
				return errMoved
			}
			return apply(t)
		},
	})
	return s, l.asTrouble(ctx, err)
}

// confirmFile asks the Git host whether main has the file that was looked at, where a push of
// it may have come there without an answer. The error is errMoved where it has another one.
func (l *look) confirmFile(ctx context.Context) error {
	if !l.facts.Pushing {
		return nil
	}
	return l.asTrouble(ctx, l.repo.Confirm(ctx, contract.RequestPath(l.binding.Name), l.file))
}

// asTrouble makes what keeps the Git host from doing something the look's trouble, and returns
// other errors.
func (l *look) asTrouble(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errMoved) || ctx.Err() != nil {
		return err
	}
	l.trouble, l.retry = err, unsentWait
	return nil
}

// remove is push for what is taken off main. Who did that here, the API server does not
// say.
func (r *Reconciler) remove(ctx context.Context, l *look, verb string, apply func(*store.Tree) error, more ...store.Trailer) error {
	if err := l.repo.MayRemove(); err != nil {
		l.trouble, l.retry = err, unsentWait
		return nil
	}
	_, err := r.push(ctx, l, verb, nil, apply, more...)
	return err
}

// recordTries is how often what both agree on is tried to be recorded beside others' writes.
const recordTries = 5

// record keeps with the binding what both agree on, also where the binding was changed
// since: that is a change to what they agreed on. It brings the binding up to date.
func (r *Reconciler) record(ctx context.Context, l *look, agreed contract.Request, commit string, file *store.Entry) error {
	b := l.binding
	for try := 0; ; try++ {
		before := b.DeepCopy()
		b.Status.Request = &v1alpha1.RequestStatus{
			Blob: string(file.Hash), Commit: commit, ConnectionUID: l.repo.ConnectionUID,
			Template: agreed.Template, DeletionPolicy: v1alpha1.DeletionPolicy(agreed.DeletionPolicy),
		}
		err := status.Replace(ctx, r.Client, before, b)
		if !admission.Stale(err) || try == recordTries {
			return err
		}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if b.UID != before.UID {
			return errMoved
		}
	}
}

// recordPushing keeps with the binding what is about to be pushed. A process that ends before
// it records that both agree on it would take its own push for others' change, and an edit of
// the binding that came meanwhile for the older one.
func (r *Reconciler) recordPushing(ctx context.Context, l *look, file store.Hash) error {
	b := l.binding
	before := b.DeepCopy()
	next := &v1alpha1.RequestStatus{ConnectionUID: l.repo.ConnectionUID, Removed: l.facts.BaseRemoved}
	switch agreed := b.Status.Request; {
	case agreed == nil || agreed.ConnectionUID != next.ConnectionUID:
	case l.file != nil && agreed.Pushing == string(l.file.Hash) && l.facts.Base != nil:
		// The push before this one came to main, and is what both agreed on.
		next.Blob, next.Commit = string(l.file.Hash), string(l.view.Main.Head())
		next.Template, next.DeletionPolicy = l.facts.Base.Template, v1alpha1.DeletionPolicy(l.facts.Base.DeletionPolicy)
	default:
		next = agreed.DeepCopy()
	}
	next.Pushing = string(file)
	b.Status.Request = next
	return status.Replace(ctx, r.Client, before, b)
}

// recordRemoved keeps with the binding that its file was removed.
func (r *Reconciler) recordRemoved(ctx context.Context, b *v1alpha1.APIServiceBinding) error {
	before := b.DeepCopy()
	// A file that comes back is not what was pushed before.
	b.Status.Request.Removed, b.Status.Request.Pushing = true, ""
	return status.Replace(ctx, r.Client, before, b)
}

// delete deletes the binding because its file was removed. What led to it is
// saved first.
func (r *Reconciler) delete(ctx context.Context, l *look) error {
	b := l.binding
	if err := l.repo.Checkpoints.Save(ctx); err != nil {
		return err
	}
	r.event(b, corev1.EventTypeNormal, "RequestRemoved", "%s was removed from main: the API is unbound.", contract.RequestPath(b.Name))
	if err := r.Client.Delete(ctx, b, client.Preconditions{UID: new(b.UID), ResourceVersion: new(b.ResourceVersion)}); err != nil {
		return err
	}
	return r.Live.Get(ctx, client.ObjectKeyFromObject(b), b)
}

// letGoOf takes our finalizer off: the binding goes.
func (r *Reconciler) letGoOf(ctx context.Context, l *look) error {
	before := l.binding.DeepCopy()
	controllerutil.RemoveFinalizer(l.binding, v1alpha1.BindingFinalizer)
	l.released = true
	return r.Client.Patch(ctx, l.binding, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// create makes the binding that a request on main asks for: a pull request added
// it, or the cluster was rebuilt. Where several Connections have one, it is that
// of the first by name; the others say so.
func (r *Reconciler) create(ctx context.Context, binding string) error {
	if checkName(binding) != nil {
		return nil
	}
	all := r.Pool.All()
	slices.SortFunc(all, func(a, b *repository.Repository) int { return strings.Compare(a.Connection, b.Connection) })
	for _, repo := range all {
		view, err := repo.View(ctx)
		if errors.Is(err, repository.ErrNotContacted) {
			continue
		}
		if err != nil {
			return err
		}
		entry, ok := view.Main.Entry(contract.RequestPath(binding))
		if !ok {
			continue
		}
		facts := request.Facts{Replaced: view.Replaced != "" || view.Copied != ""}
		facts.File, facts.Problem = readRequest(view.Main, entry)
		if request.For(facts) != request.Create {
			continue
		}
		b := &v1alpha1.APIServiceBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding, Finalizers: []string{v1alpha1.BindingFinalizer}},
			Spec: v1alpha1.APIServiceBindingSpec{
				Connection: repo.Connection, Template: facts.File.Template, DeletionPolicy: v1alpha1.DeletionPolicy(facts.File.DeletionPolicy),
			},
		}
		if err := r.keepRights(ctx, binding); err != nil {
			return err
		}
		err = r.Client.Create(ctx, b)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("create binding %s: %w", binding, err)
		}
		r.event(b, corev1.EventTypeNormal, "Requested", "Made as %s on main of Connection %s asks for it.", entry.Path, repo.Connection)
		return nil
	}
	return nil
}

func (r *Reconciler) event(b *v1alpha1.APIServiceBinding, kind, reason, words string, args ...any) {
	r.Recorder.Eventf(b, nil, kind, reason, "Bind", words, args...)
}
