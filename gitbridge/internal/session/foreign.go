package session

import (
	"maps"
	"slices"
	"sync"

	"gitbind.dev/gitbridge/contract"
)

// Foreign are the claims that are held because objects that are not theirs are in their
// place.
type Foreign struct {
	// all reports whether all of a commit of main is answered.
	all func() bool

	mu    sync.Mutex
	paths map[string]bool
	// complete says that all was answered once.
	complete bool
}

// Paths are those of the claims. They are not known before all of main was looked at
// once.
func (f *Foreign) Paths() (paths []string, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.paths)), f.isComplete()
}

// note takes note of an answer, and reports whether Paths says something else by it.
func (f *Foreign) note(path string, answer *contract.Status) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	knew := f.complete
	isForeign := answer != nil && answer.Reason == contract.Foreign
	if isForeign != f.paths[path] {
		changed = true
		if isForeign {
			f.paths[path] = true
		} else {
			delete(f.paths, path)
		}
	}
	return f.isComplete() && (changed || !knew)
}

func (f *Foreign) isComplete() bool {
	f.complete = f.complete || f.all()
	return f.complete
}
