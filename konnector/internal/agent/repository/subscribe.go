package repository

import (
	"maps"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// Change is what happened to one binding.
type Change struct {
	// Claims are those whose file on main, or ClaimStatus on status, changed.
	Claims []contract.Key
	// First says that Claims are all that there are, as none were known before.
	First bool
	// Export says that the binding's export changed.
	Export bool
	// Request says that its request.yaml changed, or the answer to it.
	Request bool
	// Observed says that the control plane has seen a newer main.
	Observed bool
	// Recovered says that the repository can be reached again.
	Recovered bool
}

type subscription struct {
	binding string
	fn      func(Change)
}

// Subscribe calls fn with what happens to a binding, until the returned
// function is called. It must not block, and must not call back.
func (r *Repository) Subscribe(binding string, fn func(Change)) (cancel func()) {
	s := &subscription{binding, fn}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers[s] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscribers, s)
	}
}

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

// exportOf is the binding that a path is the export of.
func exportOf(path string) (string, bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 3 || contract.ExportPath(parts[1]) != path {
		return "", false
	}
	return parts[1], true
}
