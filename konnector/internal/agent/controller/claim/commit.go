package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/objectwatch"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/base"
)

// commit puts the object's version into its file.
func (r *reconciler) commit(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	u, err := r.withFinalizer(ctx, l)
	if err != nil {
		return nil, err
	}
	if u.GetGeneration() != l.object.GetGeneration() {
		// A webhook changed it, and that is to be committed, too.
		return u, nil
	}
	data, err := l.encode(l.facts.Live)
	if err != nil {
		return nil, err
	}
	b := l.baseFor(l.facts.Live)
	b.Writes = l.writeOfCluster()
	if err := b.Fits(u.GetAnnotations()); err != nil {
		return nil, err
	}
	users := authorsOf(u)
	verb := "update"
	if l.file == nil {
		verb = "create"
	}
	b.Blob, b.LeftOut = string(store.BlobHash(data)), nil
	// What it refers to comes with it. What keeps that from being read does not keep the
	// claim, and is told when its status is.
	sent, err := r.inputs.make(ctx, l, string(u.GetUID()), l.facts.Live)
	if errors.Is(err, objectwatch.ErrNotKnown) {
		return nil, err
	}
	c := change{
		verb: verb, users: users, blob: b.Blob, size: packedSize(data), inputs: len(sent.File),
		apply: func(t *store.Tree) error {
			if sent.File != nil {
				if err := writeInputs(l, t, sent.File); err != nil {
					return err
				}
			}
			return t.Write(l.key.Path(), data)
		},
	}
	s, err := r.push(ctx, l, c)
	if errors.Is(err, store.ErrRejected) && sent.File != nil {
		// The host may have something against that file alone, which is then told when it
		// is sent on its own.
		sent.File, c.inputs = nil, 0
		s, err = r.push(ctx, l, c)
	}
	if err != nil {
		return nil, err
	}
	if sent.File != nil {
		r.inputs.maker.Pushed(l.key, sent)
	}
	b.Commit, b.Committed = string(s.Head()), true
	return r.recordPushed(ctx, l, u, b, users)
}

// encode is a version as the claim's file, with what the file has of labels and
// annotations that do not travel. The error is errTooLarge for one that nobody would
// read.
func (l *look) encode(version *contract.Claim) ([]byte, error) {
	data, err := contract.Encode(l.withStrayKeys(version))
	if err != nil {
		return nil, err
	}
	if why := contract.TooLarge(data); why != "" {
		return nil, fmt.Errorf("%w: its file %s", errTooLarge, why)
	}
	return data, nil
}

// removeFile takes the file off main because the object is being deleted. Who
// deleted it, the API server does not say.
func (r *reconciler) removeFile(ctx context.Context, l *look) (*unstructured.Unstructured, error) {
	c := change{
		verb: "delete", approved: l.decision.Chosen != "" || l.facts.Removal.Approved,
		apply: func(t *store.Tree) error {
			return errors.Join(t.Remove(l.key.Path()), removeInputs(l.key, t))
		},
	}
	if err := r.removing(ctx, l); err != nil {
		return nil, err
	}
	if _, err := r.push(ctx, l, c); err != nil {
		return nil, err
	}
	return r.recordPushed(ctx, l, l.object, l.baseRemoved(), nil)
}

// change is what is done to a claim's file, and by whom.
type change struct {
	verb  string
	users []string
	// blob is the hash of the new file; "" for none.
	blob string
	// size is how many bytes of the claim's file it brings to Git, and inputs how many of what
	// the claim refers to.
	size, inputs int
	// merged is the hash that the object's version would have, where the new file
	// holds others' changes, too.
	merged string
	// kept says that it is for a branch of its own. People may merge that, and what its
	// trailer said would then be taken for what was done to main.
	kept bool
	// approved says that a person has approved the removal.
	approved bool
	apply    func(*store.Tree) error
}

// push commits to main, if the file is still the one that was decided on.
func (r *reconciler) push(ctx context.Context, l *look, c change) (*store.Snapshot, error) {
	path, apply := l.key.Path(), c.apply
	var tried atomic.Bool
	c.apply = func(t *store.Tree) error {
		if e, ok := t.Entry(path); !repository.IsFile(e, ok, l.file) {
			// What was tried did not come to main, unless this is it.
			tried.Store(tried.Load() && string(e.Hash) == c.blob)
			return errMoved
		}
		tried.Store(true)
		return apply(t)
	}
	var s *store.Snapshot
	err := r.counted(l, c, func() (err error) {
		s, err = l.api.Repository.Update(ctx, l.edit(c))
		return err
	})
	if err != nil {
		if tried.Load() {
			// Also where the host refuses, as the answer to a try before may have been lost.
			l.api.Repository.Doubts.Note(trailerOf(l, c))
		}
		return nil, fmt.Errorf("push %s: %w", l.key, err)
	}
	return s, nil
}

// recordTries is how often a base is tried to be written beside others' writes.
const recordTries = 5

// recordPushed keeps what was pushed as base: it is in Git, whatever has become
// of the object meanwhile. Users whose change is in it are taken off the list of
// those who changed it since.
func (r *reconciler) recordPushed(ctx context.Context, l *look, u *unstructured.Unstructured, b base.Base, credited []string) (*unstructured.Unstructured, error) {
	ctx, cancel := finish(ctx)
	defer cancel()
	b.UID = l.object.GetUID()
	return r.recordAfterPush(ctx, l, u, b.Claim, credited, b.Removed, func(u *unstructured.Unstructured, m metadata) (*unstructured.Unstructured, error) {
		m.resolve = l.resolved()
		if l.facts.Emergency != "" {
			m.emergency = new("")
		}
		return r.patchBase(ctx, l, u, b, m)
	})
}

// recordAfterPush has record write what was pushed, with what is left of the list of users,
// to the object as it is by then.
func (r *reconciler) recordAfterPush(ctx context.Context, l *look, u *unstructured.Unstructured, pushed *contract.Claim, credited []string, removed bool,
	record func(u *unstructured.Unstructured, m metadata) (*unstructured.Unstructured, error),
) (*unstructured.Unstructured, error) {
	uid, first := l.object.GetUID(), true
	for range recordTries {
		m := metadata{changedBy: new("")}
		if !first && !removed {
			m.changedBy = l.uncredited(u, pushed, credited)
		}
		out, err := record(u, m)
		if !errors.Is(err, errMoved) {
			return out, err
		}
		if u, err = r.get(ctx, l.key); err != nil {
			return nil, err
		}
		if u == nil || u.GetUID() != uid {
			return nil, errMoved
		}
		first = false
	}
	return nil, errMoved
}

// uncredited are the users who changed an object after what was pushed. Somebody
// who was credited and then changed it again is not to be told from somebody who
// did not; but a change was made by somebody.
func (l *look) uncredited(u *unstructured.Unstructured, pushed *contract.Claim, credited []string) *string {
	if contract.Equal(l.api.schema.Normalize(contract.FromObject(u)), pushed) {
		return new("")
	}
	rest := slices.DeleteFunc(ChangedBy(u), func(user string) bool { return slices.Contains(credited, user) })
	if len(rest) == 0 {
		return nil
	}
	return new(strings.Join(rest, "\n"))
}
