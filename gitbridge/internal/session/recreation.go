package session

import (
	"slices"
	"strings"
	"sync"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Recreation is what a person wants made again, empty, if it is missing.
type Recreation struct {
	main    func() *store.Snapshot
	enqueue func(path string, urgent bool)
	changed func()

	mu sync.Mutex
	// list is what is wanted, and done the list of which all is there.
	list, done string
}

// Set names what is wanted: paths of claims or of folders of them, by commas or lines.
func (r *Recreation) Set(list string) {
	r.mu.Lock()
	same := r.list == list
	if !same {
		r.list, r.done = list, ""
	}
	r.mu.Unlock()
	if same || list == "" {
		return
	}
	for e := range r.main().List(contract.Root) {
		if r.Includes(e.Path) {
			r.enqueue(e.Path, true)
		}
	}
}

// Wanted is what is to be made, "" for nothing or when it is done.
func (r *Recreation) Wanted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == r.done {
		return ""
	}
	return r.list
}

// Includes reports whether a claim is to be made again if it is missing.
func (r *Recreation) Includes(path string) bool {
	list := r.Wanted()
	return list != "" && slices.ContainsFunc(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '\n' || r == ' ' }), func(entry string) bool {
		return path == entry || strings.HasPrefix(path, strings.TrimSuffix(entry, "/")+"/")
	})
}

// SetDone says that all of a list is there.
func (r *Recreation) SetDone(list string) {
	r.mu.Lock()
	r.done = list
	r.mu.Unlock()
	r.changed()
}

// IsDone reports whether all of a list is there.
func (r *Recreation) IsDone(list string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return list != "" && r.done == list
}
