package repository

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/store"
)

// Removals asks the guard about the removals of claims, and knows those that wait.
type Removals struct {
	connection  string
	limits      breaker.Limits
	now         func() time.Time
	view        func(context.Context) (View, error)
	lineage     *Lineage
	checkpoints *Checkpoints
	tell        *subscribers

	// tracked are the Claims of each binding, and unbinding those bindings whose
	// claims a person deletes as a whole.
	tracked, unbinding sync.Map
	// relist says that listed is not to be gone by any more.
	relist atomic.Bool
	// isAnyHeld is what anyHeld was when judging was given back last: no view waits for judging.
	isAnyHeld atomic.Bool

	// judging is held while removals are judged; it guards what follows. Waiting for it can be given up.
	judging *semaphore.Weighted
	waits   map[contract.Key]*wait
	listed  *listed
	// counts and contents are of a head of main.
	counts   facts.Claims
	contents contents
	// held is how many were held when they were counted last, and heldAt the head of
	// main then.
	held   int
	heldAt store.Hash
}

// wait is what is remembered of a removal while it waits.
type wait struct {
	// since is when it was seen first.
	since time.Time
	// held says that it was one of too many: from then on only a person lets it pass,
	// and approved that a person did.
	held, approved bool
}

// Judge decides whether a claim may be removed now. With fileGone, it is the removal of
// a file from main that would delete the object; otherwise a person deleted the object
// and the file would go. Nothing is remembered of a removal that may go before Begin. The
// error is ErrOutdated where the newest main has the file that is said to be gone.
func (r *Removals) Judge(ctx context.Context, key contract.Key, fileGone bool) (guard.Verdict, error) {
	view, err := r.lockNewest(ctx)
	if err != nil {
		return guard.Verdict{}, err
	}
	defer r.unlock()
	if _, there := view.Main.Entry(key.Path()); there && fileGone {
		return guard.Verdict{}, ErrOutdated
	}
	v, err := r.judge(ctx, view.Main, key, fileGone)
	v.Message = wordsOfRemoval(v, r.connection, fileGone)
	return v, err
}

// lockNewest takes judging, with a view that is the newest then: an older one would forget
// what was held by a newer one.
func (r *Removals) lockNewest(ctx context.Context) (View, error) {
	if err := r.judging.Acquire(ctx, 1); err != nil {
		return View{}, err
	}
	view, err := r.view(ctx)
	if err != nil {
		r.judging.Release(1)
	}
	return view, err
}

// unlock gives judging back.
func (r *Removals) unlock() {
	r.isAnyHeld.Store(r.anyHeld())
	r.judging.Release(1)
}

func (r *Removals) judge(ctx context.Context, main *store.Snapshot, key contract.Key, fileGone bool) (guard.Verdict, error) {
	path, head, to, moved := key.Path(), string(main.Head()), "", false
	rules := r.rules(main)
	if fileGone {
		if to, moved = r.movedTo(main, path, ""); moved && !r.mayBeApproved(key.Binding) {
			return guard.Moved(head, to), nil
		}
	}
	if me, ok := r.listedAs(main, key, fileGone); moved && ok {
		if approved, err := r.isApproved(ctx, main, me); err != nil || !approved {
			return guard.Moved(head, to), err
		}
	}
	if !moved {
		if rules.HasPassed(path) {
			return guard.Verdict{Commit: head}, nil
		}
		if held, err := r.isStillHeld(ctx, main, key, fileGone); err != nil || held {
			return guard.Verdict{Commit: head, Reason: contract.ManyRemovals}, err
		}
	}
	all, err := r.list(ctx, main)
	if err != nil {
		return guard.Verdict{}, err
	}
	me, ok := all[key]
	if !ok || me.fileGone != fileGone {
		// The cache is behind.
		me = waiting{Object{Key: key}, fileGone}
		all[key] = me
		r.waitOf(me)
	}
	if to, ok := r.movedTo(main, path, me.Blob); ok && fileGone {
		if approved, err := r.isApproved(ctx, main, me); err != nil || !approved {
			return guard.Moved(head, to), err
		}
	}
	return r.judgeWaiting(ctx, main, me, all)
}

// judgeWaiting decides on one removal as one of all that wait.
func (r *Removals) judgeWaiting(ctx context.Context, main *store.Snapshot, me waiting, all map[contract.Key]waiting) (guard.Verdict, error) {
	waiting := func(yield func(guard.Waiting) bool) {
		for _, w := range all {
			if !yield(r.asSeen(w)) {
				return
			}
		}
	}
	v, err := r.rules(main).JudgeWaiting(r.asSeen(me), waiting, func(w guard.Waiting) (bool, error) {
		return r.isApproved(ctx, main, all[w.Key])
	})
	if err != nil {
		return v, err
	}
	r.waitOf(me).approved = v.Approved
	for _, key := range v.Holding {
		r.waits[key].held = true
	}
	if len(v.Holding) > 0 {
		r.tell.stateChanged()
	}
	return v, nil
}

func (r *Removals) asSeen(w waiting) guard.Waiting {
	seen := r.waitOf(w)
	return guard.Waiting{Key: w.Key, FileGone: w.fileGone, Since: seen.since, Held: seen.held}
}

func (r *Removals) rules(main *store.Snapshot) guard.Removals {
	now := r.now()
	if slices.ContainsFunc(r.checkpoints.get().Removals, func(p breaker.Removal) bool { return p.At.After(now) }) {
		// The clock was ahead. They count from now on, so that they end.
		r.checkpoints.note(func(c *Checkpoint) { c.Removals = r.limits.Recent(c.Removals, now) })
	}
	return guard.Removals{
		Limits: r.limits, Passed: r.checkpoints.get().Removals, Head: string(main.Head()), Now: now,
		Claims: func(binding string) int { return r.counts.In(main, binding) },
	}
}

// mayBeApproved reports whether there is any approval that may be for a claim.
func (r *Removals) mayBeApproved(binding string) bool {
	return r.checkpoints.get().Approved.Removals != "" || r.IsUnbinding(binding)
}

// listedAs is what was listed last of a claim that waits, where that was for this head of main.
func (r *Removals) listedAs(main *store.Snapshot, key contract.Key, fileGone bool) (waiting, bool) {
	if !r.isListed() || r.listed.head != main.Head() {
		return waiting{}, false
	}
	w, ok := r.listed.all[key]
	return w, ok && w.fileGone == fileGone
}

// isListed reports whether what waits need not be looked up.
func (r *Removals) isListed() bool { return r.listed != nil && !r.relist.Load() }

// isStillHeld says so from memory: for those that were held together with another one,
// there is nothing to look up.
func (r *Removals) isStillHeld(ctx context.Context, main *store.Snapshot, key contract.Key, fileGone bool) (bool, error) {
	w, ok := r.listedAs(main, key, fileGone)
	// One that was let go since is in the list, and waits no more.
	if mine := r.waits[key]; !ok || mine == nil || !mine.held {
		return false, nil
	}
	approved, err := r.isApproved(ctx, main, w)
	return !approved, err
}

// Begin notes that a claim is about to be removed, because a verdict lets it pass, and
// saves that together with what was accepted, before it returns.
func (r *Removals) Begin(ctx context.Context, key contract.Key, v guard.Verdict) error {
	if err := r.noteBegun(ctx, key, v); err != nil {
		return err
	}
	return r.checkpoints.Save(ctx)
}

func (r *Removals) noteBegun(ctx context.Context, key contract.Key, v guard.Verdict) error {
	if err := r.judging.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.unlock()
	if w := r.waits[key]; w != nil {
		delete(r.waits, key)
		if w.held {
			defer r.tell.stateChanged()
		}
	}
	// They pass together, so one write does for all.
	now := r.now()
	rules := guard.Removals{Limits: r.limits, Passed: r.checkpoints.get().Removals, Now: now}
	more := slices.DeleteFunc(slices.Clone(v.Passing), func(p breaker.Removal) bool { return rules.HasPassed(p.Path) })
	if len(more) > 0 {
		r.checkpoints.note(func(c *Checkpoint) { c.Removals = r.limits.Recent(slices.Concat(c.Removals, more), now) })
	}
	return nil
}

// Held counts the removals that are held as too many: files that are
// gone from main, and objects that are being deleted. When there are any, at is
// the head of main, by which they can be approved.
func (r *Removals) Held(ctx context.Context) (files, objects int, at store.Hash, err error) {
	view, err := r.lockNewest(ctx)
	if err != nil {
		return 0, 0, "", err
	}
	defer r.unlock()
	if view.Replaced != "" {
		return 0, 0, "", nil
	}
	// A process that has not looked yet does not know what was held before.
	if r.isListed() && !r.anyHeld() {
		r.heldAt = ""
		return 0, 0, "", nil
	}
	all, err := r.list(ctx, view.Main)
	if err != nil {
		return 0, 0, "", err
	}
	for key, w := range all {
		switch {
		case !r.waits[key].held, r.waits[key].approved:
		case w.fileGone:
			files++
		default:
			objects++
		}
	}
	if n := files + objects; n != r.held || r.heldAt == "" {
		// Otherwise the commit stays the same: this agent's own commits, of which
		// there may be many meanwhile, make no other approval necessary.
		r.heldAt, r.held = view.Main.Head(), n
	}
	return files, objects, r.heldAt, nil
}

// AnyHeld reports whether a removal was held as one of too many when they were judged last.
func (r *Removals) AnyHeld() bool { return r.isAnyHeld.Load() }

func (r *Removals) anyHeld() bool {
	for _, w := range r.waits {
		if w.held {
			return true
		}
	}
	return false
}
