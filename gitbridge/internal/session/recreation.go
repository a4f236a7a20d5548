package session

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Recreation is what a person wants made again, empty. An approval names paths of claims, or of
// folders of them, and counts for those that are missing when it is taken up: what vanishes later
// is not one of them. Each counts until it is made.
//
// The annotation of the approval says what is left of it, as a process that begins knows nothing
// else of it.
type Recreation struct {
	enqueue func(path string, urgent bool)
	changed func()

	mu sync.Mutex
	// read is what the annotation said last, and written what it was last to say: the cache that it
	// is read from may be behind.
	read, written string
	// open says that it is not known yet what of it is missing.
	open  bool
	paths map[string]bool
}

// maxAnnotation bounds the annotation, in bytes: an API server takes 256 KiB for all of an
// object. What has no room counts in this process only.
const maxAnnotation = 64 << 10

// Approved are the paths of claims, and of folders of them, that an approval names.
type Approved struct {
	list    string
	entries map[string]bool
}

// Set passes on what the annotation says. What Rest gave is no other approval.
func (r *Recreation) Set(list string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list == r.read || list == r.written {
		r.read = list
		return
	}
	r.read, r.written, r.open, r.paths = list, list, list != "", nil
}

// Rest is what the annotation is to say by now, "" for nothing. It does not change before what
// was given last is read.
func (r *Recreation) Rest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open || r.read != r.written {
		return r.written
	}
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(r.paths)) {
		if b.Len()+1+len(p) > maxAnnotation {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(p)
	}
	r.written = b.String()
	return r.written
}

// Open is an approval of which it is not known yet what is missing, nil for none.
func (r *Recreation) Open() *Approved {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return nil
	}
	a := &Approved{list: r.read, entries: map[string]bool{}}
	for _, p := range v1alpha1.RecreateEmptyPaths(r.read) {
		a.entries[p] = true
	}
	return a
}

// Names reports whether a path is itself among them.
func (a *Approved) Names(claim string) bool { return a.entries[claim] }

// Includes reports whether a path, or a folder that it lies in, is among them.
func (a *Approved) Includes(claim string) bool {
	for p := claim; p != "."; p = path.Dir(p) {
		if a.entries[p] {
			return true
		}
	}
	return false
}

// Take says which claims of an approval are missing.
func (r *Recreation) Take(a *Approved, missing []string) {
	r.mu.Lock()
	isCurrent := r.open && r.read == a.list
	if isCurrent {
		r.open, r.paths = false, map[string]bool{}
		for _, p := range missing {
			r.paths[p] = true
		}
	}
	r.mu.Unlock()
	if !isCurrent {
		return
	}
	for _, p := range missing {
		r.enqueue(p, true)
	}
	r.changed()
}

// Includes reports whether a claim is to be made again if it is missing.
func (r *Recreation) Includes(claim string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paths[claim]
}

// Paths are those of the claims that are to be made again.
func (r *Recreation) Paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.paths))
}

// Drop says that claims are there again, or not wanted any more.
func (r *Recreation) Drop(claims []string) {
	if len(claims) == 0 {
		return
	}
	r.mu.Lock()
	for _, p := range claims {
		delete(r.paths, p)
	}
	r.mu.Unlock()
	r.changed()
}
