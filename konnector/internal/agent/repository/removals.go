package repository

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"gitbind.dev/gitbridge/breaker"
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
	// otherwise "". Blob and Claim are its base's, too.
	Commit store.Hash
	Blob   store.Hash
	Claim  *contract.Claim
	// Removed says that its removal was settled before.
	Removed bool
}

// Claims are what a repository asks of whoever keeps a binding's claims in step.
type Claims interface {
	// Objects are those with our finalizer for which want says so, as far as the
	// cache knows. Want must be quick; it is called for each object.
	Objects(ctx context.Context, want func(key contract.Key, terminating bool) bool) ([]Object, error)
	// Read is a file as a claim, normalized; nil when it is none.
	Read(f contract.File) *contract.Claim
}

// waiting is a removal that was not carried out yet: of an object whose file
// went (file), or of a file whose object is being deleted.
type waiting struct {
	Object
	file bool
}

// wait is what is remembered of a removal while it waits.
type wait struct {
	// since is when it was seen first. Removals that come within one window are
	// judged together.
	since time.Time
	// refused says that it was too many once: from then on only a person lets it
	// pass.
	refused  bool
	approved bool
	// group are the paths that were let pass together with it.
	group []string
}

// judged is what waited for a head of main when it was looked up last.
type judged struct {
	head store.Hash
	all  map[contract.Key]waiting
}

const (
	wordsFile   = "Its file is gone from main, as one of many at once: nothing is deleted until a person has approved all of them (kubectl describe connection %s says how many, and how), or decides on this one: kubectl gitbind resolve, with --take delete to delete it, or --take keep to put its file back."
	wordsObject = "It is being deleted as one of many at once: its file stays on main until a person has approved all of them (kubectl describe connection %s says how many, and how), or decides on this one: kubectl gitbind resolve, with --take delete to delete its service, or --take release to keep it."
	wordsMoved  = "Its file went to %s, which is no wish to delete the service: nothing is deleted until a person decides: kubectl gitbind resolve, with --take delete to delete this one (the other file stands for itself), or --take keep to put its file back."
)

// MayRemove reports whether a claim may be removed now; if not, why, in words for
// its owner ("" when it may). With file, it is the removal of a file from main
// that would delete the object; otherwise a person deleted the object and the
// file would go.
func (r *Repository) MayRemove(ctx context.Context, key contract.Key, file bool, base *contract.Claim) (string, error) {
	view, err := r.View(ctx)
	if err != nil {
		return "", err
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	moved := false
	delete(r.movedKeys, key)
	if file {
		var to string
		if to, moved = r.movedTo(view.Main, key.Path(), ""); moved && !r.anyApproved(key.Binding) {
			r.movedKeys[key] = true
			return fmt.Sprintf(wordsMoved, to), nil
		}
	}
	if !moved {
		if r.passed(key.Path()) {
			return "", nil
		}
		if no, err := r.stillRefused(ctx, view.Main, key, file); err != nil || no {
			return r.no(file), err
		}
	}
	all, err := r.waiting(ctx, view.Main)
	if err != nil {
		return "", err
	}
	me, ok := all[key]
	if !ok || me.file != file {
		// The cache is behind.
		me = waiting{Object{Key: key, Claim: base}, file}
		all[key] = me
		r.waitOf(me)
	}
	if to, ok := r.movedTo(view.Main, key.Path(), me.Blob); ok && file {
		if ok, err := r.approved(ctx, view.Main, me); err != nil || !ok {
			r.movedKeys[key] = true
			return fmt.Sprintf(wordsMoved, to), err
		}
	}
	return r.judge(ctx, view.Main, me, all)
}

func (r *Repository) anyApproved(binding string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.Approved.Removals != "" || r.unbinding[binding]
}

// judge decides on one removal as one of all that wait.
func (r *Repository) judge(ctx context.Context, main *store.Snapshot, me waiting, all map[contract.Key]waiting) (string, error) {
	now, mine := r.Now(), r.waitOf(me)
	yes, err := r.approved(ctx, main, me)
	if err != nil {
		return "", err
	}
	if mine.approved = yes; yes {
		mine.group = nil
		return "", nil
	}
	// All that came within a window is counted; what was refused does not pass
	// together with what comes after it.
	var counted, group []string
	var together []*wait
	inGroup := map[string]int{}
	for _, w := range all {
		theirs := r.waitOf(w)
		if w.file != me.file || now.Sub(theirs.since) >= r.Limits.Window && w.Key != me.Key {
			continue
		}
		if yes, err := r.approved(ctx, main, w); err != nil {
			return "", err
		} else if yes {
			continue
		}
		counted = append(counted, w.Key.Path())
		inGroup[w.Key.Binding]++
		if !theirs.refused {
			group, together = append(group, w.Key.Path()), append(together, theirs)
		}
	}
	had := func(binding string) int {
		n := r.filesOf(main, binding)
		if me.file {
			n += inGroup[binding]
		}
		return n
	}
	if !mine.refused && r.Limits.AllowsPush(r.memoryRemovals(), counted, had, now) {
		mine.group = group
		return "", nil
	}
	if !mine.refused {
		for _, theirs := range together {
			theirs.refused = true
		}
		r.stateChanged()
	}
	return r.no(me.file), nil
}

func (r *Repository) no(file bool) string {
	if file {
		return fmt.Sprintf(wordsFile, r.Connection)
	}
	return fmt.Sprintf(wordsObject, r.Connection)
}

// stillRefused says no from memory: for those that were refused together with
// another one, there is nothing to look up.
func (r *Repository) stillRefused(ctx context.Context, main *store.Snapshot, key contract.Key, file bool) (bool, error) {
	j := r.judged
	if j == nil || j.head != main.Head() {
		return false, nil
	}
	// One that was let go since is in what was judged, and waits no more.
	w, ok := j.all[key]
	if mine := r.waits[key]; !ok || mine == nil || w.file != file || !mine.refused {
		return false, nil
	}
	yes, err := r.approved(ctx, main, w)
	return !yes, err
}

// Removing notes that a claim is about to be removed, and saves that together
// with what was accepted, before it returns.
func (r *Repository) Removing(ctx context.Context, key contract.Key) error {
	r.judging.Lock()
	now := r.Now()
	paths := []string{key.Path()}
	if w := r.waits[key]; w != nil {
		if w.approved {
			paths = nil
		} else if len(w.group) > 0 {
			// They pass together, so one write will do.
			paths = w.group
		}
		delete(r.waits, key)
		if w.refused {
			defer r.stateChanged()
		}
	}
	var more []breaker.Removal
	for _, p := range paths {
		if !r.passed(p) {
			more = append(more, breaker.Removal{Path: p, At: now})
		}
	}
	if len(more) > 0 {
		r.mu.Lock()
		r.keep(func(m *Memory) { m.Removals = r.Limits.Recent(append(m.Removals, more...), now) })
		r.mu.Unlock()
	}
	r.judging.Unlock()
	return r.SaveAccepted(ctx)
}

// Approved reports whether MayRemove said yes because a person has approved it.
func (r *Repository) Approved(key contract.Key) bool {
	r.judging.Lock()
	defer r.judging.Unlock()
	w := r.waits[key]
	return w != nil && w.approved
}

// Moved reports whether MayRemove said no because the claim's file has moved.
func (r *Repository) Moved(key contract.Key) bool {
	r.judging.Lock()
	defer r.judging.Unlock()
	return r.movedKeys[key]
}

// passed reports whether a removal was let pass within the window.
func (r *Repository) passed(path string) bool {
	now := r.Now()
	return slices.ContainsFunc(r.memoryRemovals(), func(p breaker.Removal) bool {
		return p.Path == path && now.Sub(p.At) < r.Limits.Window
	})
}

func (r *Repository) memoryRemovals() []breaker.Removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.memory.Removals)
}

// waiting finds all removals that wait, and forgets what does not wait any more.
// The caller holds judging.
func (r *Repository) waiting(ctx context.Context, main *store.Snapshot) (map[contract.Key]waiting, error) {
	r.mu.Lock()
	tracked := maps.Clone(r.tracked)
	r.mu.Unlock()
	all := map[contract.Key]waiting{}
	for binding, claims := range tracked {
		objects, err := claims.Objects(ctx, func(key contract.Key, terminating bool) bool {
			_, ok := main.Entry(key.Path())
			return ok == terminating
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", binding, err)
		}
		for _, o := range objects {
			w := waiting{o, o.Deleted.IsZero()}
			switch {
			case o.Removed:
			case w.file:
				// What main never had is no removal.
				if yes, err := r.Continues(ctx, o.Commit); err != nil {
					return nil, err
				} else if yes {
					all[o.Key] = w
				}
			default:
				all[o.Key] = w
			}
		}
	}
	before := r.waits
	r.waits = map[contract.Key]*wait{}
	for key, w := range all {
		if old := before[key]; old != nil {
			r.waits[key] = old
		}
		r.waitOf(w)
	}
	r.judged = &judged{main.Head(), all}
	return all, nil
}

func (r *Repository) waitOf(w waiting) *wait {
	mine := r.waits[w.Key]
	if mine == nil {
		mine = &wait{since: r.Now(), refused: w.Held}
		r.waits[w.Key] = mine
	}
	return mine
}

// filesOf counts the claim files of a binding.
func (r *Repository) filesOf(main *store.Snapshot, binding string) int {
	if r.filesHead != main.Head() || r.files == nil {
		r.filesHead, r.files = main.Head(), map[string]int{}
	}
	n, ok := r.files[binding]
	if !ok {
		for range main.List(contract.ClaimsPath(binding)) {
			n++
		}
		r.files[binding] = n
	}
	return n
}

// HeldRemovals counts the removals that are held as too many: files that are
// gone from main, and objects that are being deleted. When there are any, at is
// the head of main, by which they can be approved.
func (r *Repository) HeldRemovals(ctx context.Context) (files, objects int, at store.Hash, err error) {
	view, err := r.View(ctx)
	if err != nil || view.Replaced != "" {
		return 0, 0, "", err
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	// A process that has not looked yet does not know what was refused before.
	if r.judged != nil && !r.anyRefused() {
		r.refusedAt = ""
		return 0, 0, "", nil
	}
	all, err := r.waiting(ctx, view.Main)
	if err != nil {
		return 0, 0, "", err
	}
	for key, w := range all {
		switch wait := r.waits[key]; {
		case !wait.refused || wait.approved:
		case w.file:
			files++
		default:
			objects++
		}
	}
	if n := files + objects; n != r.refusedCount || r.refusedAt == "" {
		// Otherwise the commit stays the same: this agent's own commits, of which
		// there may be many meanwhile, make no other approval necessary.
		r.refusedAt, r.refusedCount = view.Main.Head(), n
	}
	return files, objects, r.refusedAt, nil
}

func (r *Repository) anyRefused() bool {
	for _, w := range r.waits {
		if w.refused {
			return true
		}
	}
	return false
}
