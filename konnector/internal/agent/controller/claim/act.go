package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/base"
)

// fieldOwner is the konnector in managedFields.
const fieldOwner = client.FieldOwner("gitbind-konnector")

var errTooLarge = base.ErrTooLarge

// act does what was decided, and returns the object as it is then; nil when it
// is gone. The error is errMoved when what was decided on is no more.
func (r *reconciler) act(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	// Of what was proposed, and is on main perhaps, nothing tells after another proposal.
	again := l.decision.Action == decision.Propose && l.facts.Proposed != nil
	if again || l.api.Repository.Doubts.Has(l.key) {
		if err := r.confirmFile(ctx, l); err != nil {
			return nil, err
		}
	}
	u, err := r.do(ctx, l)
	if err == nil {
		l.api.Repository.Doubts.End(l.key)
	}
	return u, err
}

// confirmFile asks the Git host whether main has the file that was looked at. The error is
// errMoved where it has another one.
func (r *reconciler) confirmFile(ctx context.Context, l *look) error {
	return l.api.Repository.Confirm(ctx, l.key.Path(), l.file)
}

// do does what was decided. Whether main has to be asked first is up to act.
func (r *reconciler) do(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	switch a := l.decision.Action; a {
	case decision.Record:
		return r.record(ctx, l)
	case decision.Commit:
		return r.commit(ctx, l)
	case decision.Write:
		return r.write(ctx, l, nil)
	case decision.Merge:
		return r.merge(ctx, l)
	case decision.WriteMerged:
		return r.writeMerged(ctx, l)
	case decision.Propose:
		return r.propose(ctx, l)
	case decision.Withdraw:
		return r.withdraw(ctx, l)
	case decision.Revert:
		return r.revert(ctx, l)
	case decision.GiveWay:
		return r.giveWay(ctx, l)
	case decision.TakeBack:
		return r.takeBack(ctx, l)
	case decision.Create:
		return r.create(ctx, l)
	case decision.Delete:
		return r.delete(ctx, l)
	case decision.RemoveFile:
		return r.removeFile(ctx, l)
	case decision.RecordRemoved:
		return r.recordRemoved(ctx, l)
	case decision.Release:
		return r.release(ctx, l)
	default:
		return nil, fmt.Errorf("act on %s: no such action: %s", l.key, a)
	}
}

// withFinalizer makes sure, before the first effect outside, that a delete waits
// for us.
func (r *reconciler) withFinalizer(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	if l.facts.Finalizer {
		return l.object, nil
	}
	return r.patch(ctx, l.object, metadata{finalizer: true})
}

// baseFor is the base for a version that is in the file as it is.
func (l *look) baseFor(version *contract.Claim) base.Base {
	b := base.Base{Connection: l.api.Repository.ConnectionUID, Commit: string(l.view.Main.Head()), Claim: version}
	if l.object != nil {
		b.UID, b.Generation = l.object.GetUID(), l.object.GetGeneration()
	}
	if l.base != nil && l.base.Connection == b.Connection {
		b.Committed = l.base.Committed
	}
	// A merge has the commit that names the object.
	b.Committed = b.Committed || l.approved
	if l.file != nil {
		b.Blob, b.LeftOut, b.Stray = string(l.file.Hash), l.leftOut(version), l.stray()
	}
	return b
}

// baseRemoved is the base as it is, or a first one, and says that the claim is to go.
func (l *look) baseRemoved() base.Base {
	b := l.baseFor(l.facts.Live)
	if l.base != nil {
		b = *l.base
	}
	b.UID, b.Removed = l.object.GetUID(), true
	return b
}

// leftOut are the fields of a version that the file does not have.
func (l *look) leftOut(version *contract.Claim) []string {
	if l.says == nil && l.base != nil {
		return l.base.LeftOut
	}
	return base.LeftOut(l.says, version)
}

// record keeps the object's version, which is the file's, as base.
func (r *reconciler) record(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	b := l.baseFor(l.facts.Live)
	if !l.facts.Touched && l.decision.Chosen == "" {
		b.Lost = l.facts.Lost
	}
	resolve := l.resolved()
	if l.facts.Review && l.facts.Lost == nil {
		// A decision that was to be approved is carried out now.
		resolve = new("")
	}
	m := metadata{finalizer: true, changedBy: new(""), resolve: resolve}
	if !l.approved {
		// What could not wait is on main.
		m.emergency = new("")
	}
	return r.patchBase(ctx, l, l.object, b, m)
}

// write makes the object say what the file says, the base with it, and what the
// object's own version lost to it.
func (r *reconciler) write(ctx context.Context, l *look, lost *decision.Lost) (*unstructured.Unstructured, error) {
	b := l.baseFor(l.facts.File)
	b.Writes = l.writeOfGit()
	if b.Lost = lost; lost == nil && l.decision.Chosen == "" {
		b.Lost = l.facts.Lost
	}
	return r.update(ctx, l, l.facts.File, b)
}

// update makes the object say a version, and keeps it as base.
func (r *reconciler) update(ctx context.Context, l *look, version *contract.Claim, b base.Base) (*unstructured.Unstructured, error) {
	if !reflect.DeepEqual(version.Spec, l.facts.Live.Spec) {
		b.Generation++
	}
	value, err := b.Encode()
	if err != nil {
		return nil, l.refusedFile(err)
	}
	u := l.object.DeepCopy()
	version.WriteTo(u, l.api.schema.Keys())
	m := metadata{base: &value, changedBy: new(""), resolve: l.resolved()}
	if l.dropsProposal {
		m.proposal = new("")
	}
	if l.decision.Action == decision.Merge && l.facts.Emergency != "" {
		m.emergency = new("")
	}
	m.writeTo(u)
	controllerutil.AddFinalizer(u, v1alpha1.Finalizer)
	if err := r.client.Update(ctx, u, fieldOwner); err != nil {
		return nil, l.refusedFile(err)
	}
	return r.recordAdmitted(ctx, l, u, b)
}

// create makes the object that the file says. Its base cannot name its UID, and
// counts once the status does (package base). Should this process end between
// the two, the object has no base, which changes nothing as long as it equals
// the file, and harms nothing after.
func (r *reconciler) create(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	b := l.baseFor(l.facts.File)
	b.Generation = 1
	value, err := b.Encode()
	if err != nil {
		return nil, l.refusedFile(err)
	}
	u := l.facts.File.Object()
	u.SetGroupVersionKind(l.api.Kind)
	metadata{base: &value}.writeTo(u)
	controllerutil.AddFinalizer(u, v1alpha1.Finalizer)
	switch err := r.client.Create(ctx, u, fieldOwner); {
	case apierrors.IsNotFound(err):
		return nil, &refusedError{refusals{file: "no such namespace", noNamespace: true}}
	case apierrors.IsAlreadyExists(err):
		return nil, errMoved
	case err != nil:
		return nil, l.refusedFile(err)
	}
	// From here on it counts: nobody else can have made it.
	if err := unstructured.SetNestedField(u.Object, string(u.GetUID()), "status", "gitbind", "uid"); err != nil {
		return nil, err
	}
	return r.recordAdmitted(ctx, l, u, b)
}

// delete deletes the object because its file is gone. What led to it is saved
// first; and that the claim is to go is kept with the base, so that a file that
// comes back is not removed a second time.
func (r *reconciler) delete(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	if err := r.removing(ctx, l); err != nil {
		return nil, err
	}
	if e, ok := l.api.Repository.Remote.Main.Snapshot().Entry(l.key.Path()); !repository.IsFile(e, ok, l.file) {
		return nil, errMoved
	}
	u, err := r.recordRemoved(ctx, l)
	if err != nil {
		return nil, err
	}
	err = r.client.Delete(ctx, u, client.Preconditions{UID: new(u.GetUID()), ResourceVersion: new(u.GetResourceVersion())})
	if err != nil {
		return nil, moved(denied(err))
	}
	return r.get(ctx, l.key)
}

// removing notes a removal before it is done. One that a person has decided on is
// not counted against others.
func (r *reconciler) removing(ctx context.Context, l *look) error {
	repo := l.api.Repository
	if err := repo.MayRemove(); err != nil {
		return err
	}
	if l.decision.Chosen != "" {
		return repo.Checkpoints.Save(ctx)
	}
	return repo.Removals.Begin(ctx, l.key, *l.facts.Removal)
}

func (r *reconciler) recordRemoved(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	b := l.baseRemoved()
	if l.base != nil && l.base.Removed && l.base.UID == b.UID {
		return l.object, nil
	}
	return r.patchBase(ctx, l, l.object, b, metadata{})
}

// release takes the finalizer off. The object goes then, unless others hold it.
func (r *reconciler) release(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	if l.facts.Proposed != nil {
		// Its removal was rejected, or it is no claim any more. Nobody is to approve that later:
		// another object is there then.
		if err := r.removeProposed(ctx, l); err != nil {
			return nil, err
		}
	}
	if l.facts.Gone == decision.Yes {
		if err := r.secrets.removeAll(ctx, l); err != nil {
			return nil, err
		}
	}
	return r.patch(ctx, l.object, metadata{release: true, resolve: l.resolved()})
}

// resolved takes a person's decision off the object that was acted on.
func (l *look) resolved() *string {
	if l.decision.Chosen == "" {
		return nil
	}
	return new("")
}

// metadata is what the konnector changes of an object's metadata.
type metadata struct {
	// These are values of annotations, "" for none; nil leaves them as they are.
	base, changedBy, resolve, proposal, emergency *string

	finalizer bool
	release   bool
}

func (m metadata) annotations() map[string]*string {
	out := map[string]*string{}
	for k, v := range map[string]*string{
		v1alpha1.BaseAnnotation: m.base, v1alpha1.ChangedByAnnotation: m.changedBy, v1alpha1.ResolveAnnotation: m.resolve,
		v1alpha1.ProposalAnnotation: m.proposal, v1alpha1.EmergencyAnnotation: m.emergency,
	} {
		switch {
		case v == nil:
		case *v == "":
			out[k] = nil
		default:
			out[k] = v
		}
	}
	return out
}

func (m metadata) writeTo(u *unstructured.Unstructured) {
	a := u.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	for k, v := range m.annotations() {
		if v == nil {
			delete(a, k)
		} else {
			a[k] = *v
		}
	}
	u.SetAnnotations(a)
}

// patch changes metadata, provided that the object is as it was.
func (r *reconciler) patch(ctx context.Context, u *unstructured.Unstructured, m metadata) (*unstructured.Unstructured, error) {
	meta := map[string]any{"resourceVersion": u.GetResourceVersion()}
	if a := m.annotations(); len(a) > 0 {
		meta["annotations"] = a
	}
	changed := u.DeepCopy()
	if m.finalizer && controllerutil.AddFinalizer(changed, v1alpha1.Finalizer) ||
		m.release && controllerutil.RemoveFinalizer(changed, v1alpha1.Finalizer) {
		// Not nil, which would mean no change.
		meta["finalizers"] = append([]string{}, changed.GetFinalizers()...)
	}
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, err
	}
	if err := r.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, data), fieldOwner); err != nil {
		return nil, moved(denied(err))
	}
	if m.release {
		return nil, nil
	}
	return changed, nil
}

// moved turns the answers that mean "decide again" into errMoved, and that the object's
// namespace is gone into a refusedError.
func moved(err error) error {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		if d := status.Status().Details; d != nil && d.Kind == "namespaces" {
			return &refusedError{refusals{noNamespace: true}}
		}
	}
	if admission.Stale(err) {
		return errMoved
	}
	return err
}
