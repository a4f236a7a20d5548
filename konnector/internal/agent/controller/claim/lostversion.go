package claim

import (
	"context"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

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
	data, err := l.encode(l.facts.Live)
	if err != nil {
		return nil, err
	}
	users := authorsOf(object)
	lost := &decision.Lost{
		Reason: l.decision.Reason, Branch: contract.ConflictBranch(l.key, string(store.BlobHash(data))),
		Fields: l.facts.Fields[:min(len(l.facts.Fields), maxNamed)], Users: users[:min(len(users), maxNamed)],
	}
	kept := false
	c := change{
		// It may be too large to be committed, however it is packed.
		verb: "keep", users: users, kept: true, size: len(data),
		apply: func(t *store.Tree) error {
			is, _ := t.Entry(l.key.Path())
			kept = is.Hash == store.BlobHash(data)
			return t.Write(l.key.Path(), data)
		},
	}
	if err := r.counted(l, c, func() error { return l.api.Repository.Keep(ctx, lost.Branch, l.view.Main, l.edit(c)) }); err != nil {
		return nil, err
	}
	if kept {
		// By a try before, of which the rest failed.
		r.bytes.giveBack(l.key, c.size)
		l.pushed = 0
	}
	if l.decision.Chosen != "" {
		// The person who decided so need not be told.
		lost = nil
	}
	return r.write(ctx, l, lost)
}

// takeBack makes the object say again what lost a conflict. It is committed then
// as an edit of those who made it.
func (r *reconciler) takeBack(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	lost := l.facts.Lost
	data, err := l.api.Repository.Kept(ctx, lost.Branch, l.key.Path())
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
	schema := l.api.schema
	c, err := contract.Decode(contract.File{Path: l.key.Path(), Data: data}, schema.Kind())
	if err != nil {
		return nil, cannot(err.Error())
	}
	b := *l.base
	b.UID, b.Lost, b.Writes = l.object.GetUID(), nil, nil
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
