package claim

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/base"
)

var errStopped = errors.New("its controller has stopped")

// tracked are the claims of an API as the repository sees them, so that removals
// are judged together and not one by one.
type tracked struct{ *reconciler }

// Objects goes through the cache.
func (t tracked) Objects(ctx context.Context, want func(key contract.Key, terminating bool) bool) ([]repository.Object, error) {
	api := t.api()
	if !t.work.enter() {
		// Nobody watches any more, and by what was there the others' removals would
		// look fewer than they are.
		return nil, fmt.Errorf("list %s: %w", api.Binding, errStopped)
	}
	defer t.work.leave()
	all, err := t.claims.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", api.Binding, err)
	}
	var out []repository.Object
	for _, c := range all {
		key := contract.Key{Binding: api.Binding, Namespace: c.Namespace, Name: c.Name}
		if !controllerutil.ContainsFinalizer(c, v1alpha1.Finalizer) || !want(key, c.DeletionTimestamp != nil) {
			continue
		}
		o, ok, err := t.object(ctx, key, c)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// object is not for those that go with something else: these are held for themselves.
func (t tracked) object(ctx context.Context, key contract.Key, c *cachedClaim) (repository.Object, bool, error) {
	u, err := c.object()
	if err != nil {
		return repository.Object{}, false, err
	}
	o := repository.Object{Key: key, Held: reasonOf(u, conditionHeld) == string(decision.ManyRemovals)}
	if at := u.GetDeletionTimestamp(); at != nil {
		o.Deleted = at.Time
		if knownEnding(u) != "" {
			return o, false, nil
		}
		with, _, err := ending(ctx, input{Reader: t.cached, cached: true}, key, u)
		if errors.Is(err, errIncomplete) {
			with, _, err = ending(ctx, input{Reader: t.live}, key, u)
		}
		if err != nil || with != "" {
			return o, false, err
		}
	}
	if b := base.Read(u); b != nil {
		o.Removed = b.Removed
		if b.Connection == t.api().Repository.ConnectionUID {
			o.Commit, o.Blob, o.Kind = store.Hash(b.Commit), store.Hash(b.Blob), b.Claim.Kind
		}
	}
	return o, true, nil
}

// Read is a file as a claim of this API.
func (t tracked) Read(f contract.File) *contract.Claim {
	schema := t.api().schema
	c, err := contract.Decode(f, schema.Kind())
	if err != nil {
		return nil
	}
	return schema.Normalize(c)
}
