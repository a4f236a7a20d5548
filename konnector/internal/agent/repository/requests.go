package repository

import (
	"maps"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Requests are the bindings that main has a request.yaml of, by name.
func (r *Repository) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.requested))
}

// noteRequests keeps what main asks for, and reports whether that changed.
func (r *Repository) noteRequests(old, new *store.Snapshot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for c := range store.Diff(old, new, contract.Root) {
		binding, ok := contract.ParseRequestPath(c.Path)
		if !ok {
			continue
		}
		changed = true
		if c.New == nil {
			delete(r.requested, binding)
		} else {
			r.requested[binding] = struct{}{}
		}
	}
	return changed
}
