package repository

import (
	"strings"
	"sync"

	"gitbind.dev/gitbridge/contract"
)

// Change is what happened to one binding.
type Change struct {
	// Claims are those whose file on main, or that of their inputs, or ClaimStatus on
	// status, changed.
	Claims []contract.Key
	// Secrets are those whose file on status changed.
	Secrets []contract.SecretKey
	// First says that Claims are all that there are, as none were known before.
	First bool
	// Export says that the binding's export changed.
	Export bool
	// Request says that its request.yaml changed, or the answer to it.
	Request bool
	// Observed says that the control plane has seen a newer main.
	Observed bool
	// Proposed is a branch changes/… of which there is news, contract.ChangesPrefix if there
	// may be of any; "" for none.
	Proposed string
	// Recovered says that the repository can be reached again.
	Recovered bool
}

type subscription struct {
	binding string
	fn      func(Change)
}

// subscribers are told what happened.
type subscribers struct {
	// onState is called when what is said of the repository may have changed.
	onState func()

	mu  sync.Mutex
	all map[*subscription]struct{}
}

// Subscribe calls fn with what happens to a binding, until the returned
// function is called. It must not block, and must not call back.
func (r *Repository) Subscribe(binding string, fn func(Change)) (cancel func()) {
	s, to := &subscription{binding, fn}, r.tell
	to.mu.Lock()
	defer to.mu.Unlock()
	to.all[s] = struct{}{}
	return func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		delete(to.all, s)
	}
}

func (to *subscribers) stateChanged() {
	if to.onState != nil {
		to.onState()
	}
}

func (to *subscribers) recovered() {
	to.each(func(string) *Change { return &Change{Recovered: true} })
}

// each tells every subscriber what happened to its binding, if anything did.
func (to *subscribers) each(changeOf func(binding string) *Change) {
	to.mu.Lock()
	defer to.mu.Unlock()
	for s := range to.all {
		if c := changeOf(s.binding); c != nil {
			s.fn(*c)
		}
	}
}

// exportOf is the binding that a path is the export of.
func exportOf(path string) (string, bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 3 || contract.ExportPath(parts[1]) != path {
		return "", false
	}
	return parts[1], true
}
