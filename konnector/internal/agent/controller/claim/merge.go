package claim

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// merge commits what both sides changed, and writes it to the object.
func (r *reconciler) merge(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	merged := l.facts.Merged
	if contract.Equal(merged, l.facts.File) {
		// The object's edits are in the file already.
		return r.write(ctx, l, nil)
	}
	tried, err := r.tryOut(ctx, l, merged)
	if err != nil {
		return nil, err
	}
	object, err := r.withFinalizer(ctx, l)
	if err != nil {
		return nil, err
	}
	l.object = object
	data, err := l.encode(merged)
	if err != nil {
		return nil, err
	}
	b := l.baseFor(merged)
	if err := b.Fits(tried.GetAnnotations()); err != nil {
		return nil, err
	}
	users := authorsOf(object)
	live, err := l.encode(l.facts.Live)
	if err != nil {
		return nil, err
	}
	// The file is not this object's version: after a crash it must not be taken
	// for the base.
	s, err := r.push(ctx, l, change{
		verb: "merge", users: users, blob: string(store.BlobHash(data)), size: packedSize(data), merged: string(store.BlobHash(live)),
		apply: func(t *store.Tree) error { return t.Write(l.key.Path(), data) },
	})
	if err != nil {
		return nil, err
	}
	b.Commit, b.Committed = string(s.Head()), true
	l.says, b.LeftOut = merged, nil
	pushed := b
	b.Blob = string(store.BlobHash(data))
	ctx, cancel := finish(ctx)
	defer cancel()
	u, err := r.update(ctx, l, merged, b)
	if !errors.Is(err, errMoved) {
		return u, err
	}
	// It was edited again. The edits that were merged are in Git; what comes to
	// it from there is written next.
	pushed.Claim, pushed.Blob = l.facts.Live, ""
	return r.recordPushed(ctx, l, object, pushed, users)
}

// tryOut asks the API server whether it would take a version, and returns the object that it
// would have then.
func (r *reconciler) tryOut(ctx context.Context, l *look, version *contract.Claim) (*unstructured.Unstructured, error) {
	u := l.object.DeepCopy()
	version.WriteTo(u, l.api.schema.Keys())
	if err := r.client.Update(ctx, u, fieldOwner, client.DryRunAll); err != nil {
		return nil, l.refused(err, func(all *refusals, s metav1.Status) { all.merge = s.Message })
	}
	return u, nil
}
