// Package breaker counts removals of claims, and says which are too many at
// once for a mistake to be ruled out. It judges no removal: that is package
// guard (Removals), which both agents ask and which asks this one. The bridge
// also asks it whether too many services are missing on the control plane.
// It is pure: it has no clock, keeps nothing, and knows nothing of why
// something is removed. Who approved what is for its callers: a removal that a
// person approved is neither asked about nor recorded.
package breaker

import (
	"slices"
	"strings"
	"time"

	"gitbind.dev/gitbridge/contract"
)

// Limits say how many removals are too many. The zero value lets none pass.
type Limits struct {
	// Most is how many claims of a repository may be removed within Window.
	Most   int
	Window time.Duration
	// AtLeast removals within Window that are at least this Share of a binding's
	// claims are too many, even if they are not more than Most. A Share of 0 or
	// less is no limit.
	Share   float64
	AtLeast int
}

// Default is what counts where nothing else is said.
func Default() Limits {
	return Limits{Most: 3, Window: 10 * time.Minute, Share: 0.5, AtLeast: 2}
}

// Removal is a claim whose removal was let pass.
type Removal struct {
	// Path is that of the claim's file.
	Path string
	At   time.Time
}

// Allows reports whether more removals, which came as one, may pass, given those that
// passed lately and how many claims a binding had: those in more among them, those that
// passed before not. They pass together, or none does.
//
// A claim counts once within the window, however often it is removed and comes
// back: what was made again since holds little, and asking about the same removal
// twice must change nothing. That it came back does not take the first removal
// off the count either: otherwise services could be replaced by empty ones, three
// at a time.
func (l Limits) Allows(passed []Removal, more []string, had func(binding string) int, now time.Time) bool {
	removed := map[string]bool{}
	for _, r := range passed {
		if l.counts(r, now) {
			removed[r.Path] = true
		}
	}
	before := bindings(removed)
	isNew := false
	for _, path := range more {
		if !removed[path] {
			removed[path], isNew = true, true
		}
	}
	if !isNew {
		// All of it has passed already.
		return true
	}
	if len(removed) > l.Most {
		return false
	}
	after := bindings(removed)
	for binding := range bindings(set(more)) {
		if after[binding] > before[binding] && l.isShare(after[binding], had(binding)+before[binding]) {
			return false
		}
	}
	return true
}

// isShare reports whether removals are too large a part of what was there.
func (l Limits) isShare(removed, had int) bool {
	return l.Share > 0 && removed >= l.AtLeast && float64(removed) >= l.Share*float64(had)
}

// counts reports whether a removal is within the window. One from the future,
// which a clock that was set back leaves behind, is.
func (l Limits) counts(r Removal, now time.Time) bool { return now.Sub(r.At) < l.Window }

// Recent is what is worth keeping of the removals that passed: those within the
// window, each claim once, oldest first. One from the future is taken for one of
// now, so that it ends. Where each removal was allowed there are never more than
// Most; of others the newest Most+1 are kept, which is all that a decision needs.
func (l Limits) Recent(passed []Removal, now time.Time) []Removal {
	newest := map[string]time.Time{}
	for _, r := range passed {
		if !l.counts(r, now) {
			continue
		}
		if r.At.After(now) {
			r.At = now
		}
		if at, ok := newest[r.Path]; !ok || r.At.After(at) {
			newest[r.Path] = r.At
		}
	}
	var out []Removal
	for path, at := range newest {
		out = append(out, Removal{path, at})
	}
	slices.SortFunc(out, func(a, b Removal) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out[max(0, len(out)-l.Most-1):]
}

func set(paths []string) map[string]bool {
	out := map[string]bool{}
	for _, p := range paths {
		out[p] = true
	}
	return out
}

// bindings counts paths by the binding that they are in. Paths of no claim are
// counted by their folder.
func bindings(paths map[string]bool) map[string]int {
	out := map[string]int{}
	for p := range paths {
		out[bindingOf(p)]++
	}
	return out
}

func bindingOf(path string) string {
	if binding := contract.BindingOf(path); binding != "" {
		return binding
	}
	folder, _, _ := strings.Cut(strings.TrimPrefix(path, contract.Root+"/"), "/")
	return folder
}
