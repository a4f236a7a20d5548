package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// Removal is a claim whose file main lacks, with the guard's verdict on that.
type Removal struct {
	guard.Verdict
	// approvedHere says that the approval was given on the control plane.
	approvedHere bool
	// CameWith are files that came with the same commits, or in the place of such: the
	// claim may have moved there.
	CameWith []string
	// applied is a commit of which the claim was applied, where no commit since is known to
	// have removed it: main may not have had it, and have it again.
	applied store.Hash
}

// Removals are the claims that main lacks and that are not known to be gone.
type Removals struct {
	branch  facts.Main
	status  *statusbranch.Branch
	answers *Answers
	now     func() time.Time
	enqueue func(path string, urgent bool)
	changed func()
	// onControlPlane is that of Options.
	onControlPlane func(binding string) map[string]store.Hash
	// begun is the commit from which main is followed.
	begun func() store.Hash

	// judging is held from when verdicts are asked for until they count: what passes at
	// the same time adds up.
	judging sync.Mutex

	mu sync.Mutex
	// main is the commit by which they are judged.
	main *store.Snapshot
	all  map[string]*Removal
	// passed are the removals that passed lately, and changes counts how often that
	// changed.
	passed  []breaker.Removal
	changes int
	limits  breaker.Limits
}

// take makes verdicts on a head of main count. Present are paths whose files are there: of
// these there is no removal any more.
// What passes must be saved before it is acted on.
func (r *Removals) take(main *store.Snapshot, j judged, present []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.main = main
	if j.replaces {
		clear(r.all)
	}
	for _, path := range present {
		delete(r.all, path)
	}
	r.add(j)
}

// add keeps verdicts. The caller holds mu.
func (r *Removals) add(j judged) {
	for path, known := range r.all {
		if j.isNews(path, known) {
			delete(r.all, path)
			r.enqueue(path, true)
		}
	}
	// What came with an earlier removal may have moved on.
	for _, known := range r.all {
		known.CameWith = guard.Destinations(known.CameWith, func(path string) []string {
			if later := j.removals[path]; later != nil {
				return later.CameWith
			}
			return nil
		})
	}
	maps.Copy(r.all, j.removals)
	var passing []breaker.Removal
	for _, path := range slices.Sorted(maps.Keys(j.removals)) {
		passing = append(passing, j.removals[path].Passing...)
	}
	if len(passing) > 0 {
		r.passed = r.limits.Recent(append(r.passed, passing...), r.now())
		r.changes++
	}
}

// passedLately are the removals that passed, and a number that changes with them.
func (r *Removals) passedLately() ([]breaker.Removal, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits.Recent(r.passed, r.now()), r.changes
}

// Limits say how many may go at once.
func (r *Removals) Limits() breaker.Limits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits
}

// SetLimits says how many may go at once, from now on.
func (r *Removals) SetLimits(l breaker.Limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits = l
}

// Seen says where a claim was seen whose file main lacks.
type Seen struct {
	// Answered is the commit with its file that was answered, "" for none.
	Answered store.Hash
	// Applied is the commit that its object says it was made from.
	Applied store.Hash
}

// Judge is how the file went at a path that main lacks. Most were judged when main was
// looked at. The others are claims that were applied and not answered before the process
// ended: all that are known of these it judges now, as one by one they would pass together;
// it keeps what comes of it, and tells that there is news.
func (r *Removals) Judge(ctx context.Context, path string, seen Seen) (Removal, error) {
	if known, _ := r.known(path); known != nil {
		return *known, nil
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	known, main := r.known(path)
	if known != nil {
		return *known, nil
	}
	if _, back := main.Entry(path); back {
		return Removal{}, fmt.Errorf("look at %s: main moved", path)
	}
	j, err := r.judgeUnanswered(ctx, main, path, seen)
	if err != nil {
		return Removal{}, err
	}
	r.mu.Lock()
	if r.main != main {
		r.mu.Unlock()
		return Removal{}, fmt.Errorf("look at %s: main moved", path)
	}
	r.add(j)
	// As it is now: another one may move it on.
	removal := *r.all[path]
	r.mu.Unlock()
	r.changed()
	return removal, nil
}

// known is a copy of what is known of a path, nil for nothing, and the commit by which that
// was judged.
func (r *Removals) known(path string) (*Removal, *store.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.all[path]; known != nil {
		return new(*known), r.main
	}
	return nil, r.main
}

// IsKnown reports whether a path was judged.
func (r *Removals) IsKnown(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[path] != nil
}

// HoldMoved holds a removal that passed, because the claim seems to be in
// another file now.
func (r *Removals) HoldMoved(path, to string) guard.Verdict {
	return r.hold(path, func(commit string) guard.Verdict {
		v := guard.Moved(commit, to)
		v.Message = decision.WordsOfRemoval(v)
		return v
	})
}

// HoldLeft holds a removal that passed, because the cluster has no right on the API. What was
// told then, that nothing was deleted, goes on being so when it has one.
func (r *Removals) HoldLeft(path, binding string) guard.Verdict {
	return r.hold(path, func(commit string) guard.Verdict {
		v := guard.NotRemoved(commit)
		v.Message = decision.WordsOfLeft(v, binding)
		return v
	})
}

// hold holds a removal that passed: as says with which verdict.
func (r *Removals) hold(path string, as func(commit string) guard.Verdict) guard.Verdict {
	r.mu.Lock()
	known := r.all[path]
	if known == nil {
		known = &Removal{Verdict: guard.Verdict{Commit: string(r.main.Head())}}
		r.all[path] = known
	}
	known.Verdict = as(known.Commit)
	r.passed = slices.DeleteFunc(r.passed, func(p breaker.Removal) bool { return p.Path == path })
	r.changes++
	v := known.Verdict
	r.mu.Unlock()
	r.changed()
	return v
}

// end forgets a removal that is answered as gone, and reports whether people were told
// of it.
func (r *Removals) end(path string) (told bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.all[path]
	delete(r.all, path)
	return known != nil && (known.IsHeld() || known.approvedHere)
}

// held are the removals that are held.
func (r *Removals) held() map[string]Removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]Removal{}
	for path, known := range r.all {
		if known.IsHeld() {
			out[path] = *known
		}
	}
	return out
}
