package claim

import (
	"context"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

// merge commits what both sides changed, and writes it to the object.
func (r *reconciler) merge(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	merged := l.facts.Merged
	if contract.Equal(merged, l.facts.File) {
		// The object's edits are in the file already.
		return r.write(ctx, l, nil)
	}
	if err := r.tryOut(ctx, l, merged); err != nil {
		return nil, err
	}
	object, err := r.withFinalizer(ctx, l)
	if err != nil {
		return nil, err
	}
	l.object = object
	data, err := r.encode(l, merged)
	if err != nil {
		return nil, err
	}
	b := r.baseFor(l, merged)
	if err := b.Fits(); err != nil {
		return nil, err
	}
	users := authorsOf(object)
	live, err := r.encode(l, l.facts.Live)
	if err != nil {
		return nil, err
	}
	// The file is not this object's version: after a crash it must not be taken
	// for the base.
	s, err := r.push(ctx, l, change{
		verb: "merge", users: users, blob: string(store.BlobHash(data)), merged: string(store.BlobHash(live)),
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

// tryOut asks the API server whether it would take a version.
func (r *reconciler) tryOut(ctx context.Context, l *look, version *contract.Claim) error {
	u := l.object.DeepCopy()
	version.WriteTo(u, r.api().schema.Keys())
	if err := r.client.Update(ctx, u, fieldOwner, client.DryRunAll); err != nil {
		return l.refused(err, func(all *refusals, s metav1.Status) { all.merge = s.Message })
	}
	return nil
}

// maxNamed is how many fields and users are kept with a conflict.
const maxNamed = 10

// giveWay keeps the object's version on a branch of its own, and then writes the
// file's to the object.
func (r *reconciler) giveWay(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	object, err := r.withFinalizer(ctx, l)
	if err != nil {
		return nil, err
	}
	l.object = object
	data, err := r.encode(l, l.facts.Live)
	if err != nil {
		return nil, err
	}
	users := authorsOf(object)
	lost := &decision.Lost{
		Reason: l.decision.Reason, Branch: contract.ConflictBranch(l.key, string(store.BlobHash(data))),
		Fields: l.facts.Fields[:min(len(l.facts.Fields), maxNamed)], Users: users[:min(len(users), maxNamed)],
	}
	e := r.edit(l, change{
		verb: "keep", users: users, kept: true,
		apply: func(t *store.Tree) error { return t.Write(l.key.Path(), data) },
	})
	if err := r.api().Repository.Keep(ctx, lost.Branch, l.view.Main, e); err != nil {
		return nil, err
	}
	if l.decision.Chosen != "" {
		// Whoever decided so need not be told.
		lost = nil
	}
	return r.write(ctx, l, lost)
}

// takeBack makes the object say again what lost a conflict. It is committed then
// as an edit of those who made it.
func (r *reconciler) takeBack(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	lost := l.facts.Lost
	data, err := r.api().Repository.Kept(ctx, lost.Branch, l.key.Path())
	cannot := func(words string) error {
		all := l.refusals
		all.lost = words
		return &refusedError{all}
	}
	switch {
	case errors.Is(err, store.ErrNotExist):
		return nil, cannot("it is not on that branch any more.")
	case err != nil:
		return nil, err
	}
	schema := r.api().schema
	c, err := contract.Decode(contract.File{Path: l.key.Path(), Mode: uint32(store.Regular), Size: int64(len(data)), Data: data}, schema.Kind())
	if err != nil {
		return nil, cannot(err.Error())
	}
	b := *l.base
	b.UID, b.Lost, b.Turns = l.object.GetUID(), nil, nil
	// It is to be committed, though the konnector wrote it: see completeBase.
	b.Generation = 0
	value, err := b.Encode()
	if err != nil {
		return nil, err
	}
	u := l.object.DeepCopy()
	schema.Normalize(c).WriteTo(u, schema.Keys())
	metadata{base: &value, changedBy: new(strings.Join(lost.Users, "\n")), resolve: l.resolved()}.writeTo(u)
	if err := r.client.Update(ctx, u, fieldOwner); err != nil {
		return nil, l.refused(err, func(all *refusals, s metav1.Status) { all.lost = s.Message })
	}
	return u, nil
}

// resolved takes a person's decision off the object that was acted on.
func (l *look) resolved() *string {
	if l.decision.Chosen == "" {
		return nil
	}
	return new("")
}
