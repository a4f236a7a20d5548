package repository

import (
	"context"
	"fmt"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Object is a claim's object in this cluster, and what is known of its base.
type Object struct {
	Key contract.Key
	// Deleted is when its delete began, by the API server's clock; zero while it
	// lives.
	Deleted time.Time
	// Held says that its removal is held as one of many.
	Held bool
	// Commit is that of its base, if that was agreed under this Connection;
	// otherwise "". Blob and Kind are its base's, too.
	Commit store.Hash
	Blob   store.Hash
	Kind   string
	// Removed says that its removal was settled before.
	Removed bool
}

// Claims are what is asked of the controller that keeps a binding's claims in step.
type Claims interface {
	// Objects are those with our finalizer for which want says so, as far as the
	// cache knows. Want must be quick; it is called for each object.
	Objects(ctx context.Context, want func(key contract.Key, terminating bool) bool) ([]Object, error)
	// Read is a file as a claim, normalized; nil when it is none.
	Read(f contract.File) *contract.Claim
}

// waiting is a removal that was not carried out yet: of an object whose file is gone, or
// of a file whose object is being deleted.
type waiting struct {
	Object
	fileGone bool
}

// listed is what waited for a head of main when it was looked up last.
type listed struct {
	head store.Hash
	all  map[contract.Key]waiting
}

// Track has a binding's removals judged together with all others, from now on
// until the returned function is called. What moved while no process looked is
// found out here, from the objects without a file and the files without an
// object, and saved before it returns.
func (r *Removals) Track(ctx context.Context, binding string, claims Claims) (cancel func(), err error) {
	known, err := r.noteMoved(ctx, binding, claims)
	if err != nil {
		return nil, err
	}
	r.tracked.Store(binding, claims)
	if !known {
		// Main may be right again since, by a step that was taken before this.
		if _, err := r.noteMoved(ctx, binding, claims); err != nil {
			r.tracked.CompareAndDelete(binding, claims)
			return nil, err
		}
	}
	r.tell.stateChanged()
	return func() { r.tracked.CompareAndDelete(binding, claims) }, nil
}

// Tracks reports whether a binding is tracked.
func (r *Removals) Tracks(binding string) bool {
	_, yes := r.tracked.Load(binding)
	return yes
}

// list finds all removals that wait, and forgets what does not wait any more.
// The caller holds judging.
func (r *Removals) list(ctx context.Context, main *store.Snapshot) (map[contract.Key]waiting, error) {
	r.listed = nil
	r.relist.Store(false)
	all := map[contract.Key]waiting{}
	var err error
	r.tracked.Range(func(binding, claims any) bool {
		err = r.listBinding(ctx, main, claims.(Claims), all)
		if err != nil {
			err = fmt.Errorf("list %s: %w", binding, err)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	before := r.waits
	r.waits = map[contract.Key]*wait{}
	for key, w := range all {
		if old := before[key]; old != nil {
			r.waits[key] = old
		}
		r.waitOf(w)
	}
	r.listed = &listed{main.Head(), all}
	return all, nil
}

func (r *Removals) listBinding(ctx context.Context, main *store.Snapshot, claims Claims, all map[contract.Key]waiting) error {
	objects, err := claims.Objects(ctx, func(key contract.Key, terminating bool) bool {
		_, ok := main.Entry(key.Path())
		return ok == terminating
	})
	if err != nil {
		return err
	}
	for _, o := range objects {
		w := waiting{o, o.Deleted.IsZero()}
		if o.Removed {
			continue
		}
		if w.fileGone {
			// What main never had is no removal, nor what it has by now.
			if had, err := r.lineage.Continues(ctx, o.Commit); err != nil {
				return err
			} else if !had {
				continue
			}
			if _, has := r.lineage.main.Snapshot().Entry(o.Key.Path()); has {
				continue
			}
		}
		all[o.Key] = w
	}
	return nil
}

func (r *Removals) waitOf(w waiting) *wait {
	mine := r.waits[w.Key]
	if mine == nil {
		mine = &wait{since: r.now(), held: w.Held}
		r.waits[w.Key] = mine
	}
	return mine
}
