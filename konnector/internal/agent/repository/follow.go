package repository

import (
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// pollInterval is how often to look where no event tells.
const pollInterval = time.Minute

// Run keeps up with the repository until ctx ends.
func (r *Repository) Run(ctx context.Context) {
	for ctx.Err() == nil {
		run, ok := r.running(ctx)
		if !ok {
			return
		}
		r.follow(run)
	}
}

// running waits until there is a credential, and returns a context that ends
// when there is none any more.
func (r *Repository) running(ctx context.Context) (context.Context, bool) {
	for {
		r.mu.Lock()
		if !r.suspended {
			run, cancel := context.WithCancel(ctx)
			r.suspend = cancel
			r.mu.Unlock()
			return run, true
		}
		resumed := r.resumed
		r.mu.Unlock()
		select {
		case <-resumed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Suspend stops all requests: the credential is gone. What is known stays.
func (r *Repository) Suspend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspended = true
	if r.suspend != nil {
		r.suspend()
	}
}

// Suspended reports whether there is no credential.
func (r *Repository) Suspended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspended
}

// Resume goes on, and tries at once what did not work.
func (r *Repository) Resume() {
	r.mu.Lock()
	was := r.suspended
	if was {
		r.suspended = false
		close(r.resumed)
		r.resumed = make(chan struct{})
	}
	r.mu.Unlock()
	if was {
		r.tell.recovered()
	}
	r.Wake()
}

// Wake looks at both branches now.
func (r *Repository) Wake() {
	store.Tell(r.wakeMain, "")
	store.Tell(r.wakeStatus, "")
}

func (r *Repository) follow(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		store.Follow(ctx, store.FollowOptions{
			Branch: r.Remote.Main, Wake: r.wakeMain, Poll: pollInterval,
			OnChange: func(ctx context.Context, _, s *store.Snapshot) error { return r.mainChanged(ctx, s) },
			OnError:  func(err error) { r.trouble(ctx, "main", err, func(h *Health) *error { return &h.Main }) },
		})
	})
	all.Go(func() {
		store.Follow(ctx, store.FollowOptions{
			Branch: r.Remote.Status, Wake: r.wakeStatus, Poll: pollInterval,
			OnChange: func(_ context.Context, _, s *store.Snapshot) error { return r.statusChanged(s) },
			OnError:  func(err error) { r.trouble(ctx, "status", err, func(h *Health) *error { return &h.Status }) },
		})
	})
	if r.Remote.Listen != nil {
		all.Go(func() {
			r.Remote.Listen(ctx, r.moved, func(err error) { r.trouble(ctx, "events", err, func(h *Health) *error { return &h.Events }) })
		})
	}
}

// trouble notes what does not work, or works again, of a part of the repository, and logs it when
// that is news.
func (r *Repository) trouble(ctx context.Context, part string, err error, of func(*Health) *error) {
	var before error
	r.setHealth(func(h *Health) { before, *of(h) = *of(h), err })
	if !same(before, err) {
		store.LogTrouble(logr.FromContextOrDiscard(ctx).WithValues("connection", r.Connection), part, err)
	}
}

func (r *Repository) moved(ref string, tip store.Hash) {
	switch ref {
	case contract.MainRef:
		store.Tell(r.wakeMain, tip)
	case contract.StatusRef:
		store.Tell(r.wakeStatus, tip)
	case "":
		// Connected again: anything may have happened meanwhile.
		r.Wake()
		ref = contract.HeadsPrefix + contract.ChangesPrefix
	}
	if branch, ok := strings.CutPrefix(ref, contract.HeadsPrefix); ok && strings.HasPrefix(branch, contract.ChangesPrefix) {
		r.tell.each(func(string) *Change { return &Change{Proposed: branch} })
	}
}

// contact notes when both branches were read once.
func (r *Repository) contact() {
	r.mu.Lock()
	contacted := r.mainKnown && r.statusKnown
	r.mu.Unlock()
	if contacted {
		r.setHealth(func(h *Health) { h.Contacted = true })
	}
}

// mainChanged tells which claims have another file than the subscribers know.
func (r *Repository) mainChanged(ctx context.Context, s *store.Snapshot) error {
	if _, _, err := r.Lineage.accept(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	old := r.mainSeen
	r.mainSeen, r.mainKnown = s, true
	caughtUp := r.Lineage.passed(r.ahead)
	if caughtUp {
		r.ahead = ""
	}
	r.mu.Unlock()
	if r.noteRequests(old, s) {
		r.tell.stateChanged()
	}
	r.contact()
	r.tellOf(store.Diff(old, s, contract.Root), old == nil)
	if caughtUp {
		// The control plane saw it before: who was told of that looked at an older main.
		r.tell.each(func(string) *Change { return &Change{Observed: true} })
	}
	return nil
}

// statusChanged tells which claims have another ClaimStatus.
func (r *Repository) statusChanged(s *store.Snapshot) error {
	r.mu.Lock()
	old := r.statusSeen
	r.statusSeen, r.statusKnown = s, true
	refused := r.refused.update(old, s)
	if r.ahead = r.status.observed(s).main; r.Lineage.passed(r.ahead) {
		r.ahead = ""
	}
	r.mu.Unlock()
	if now := r.status.judge(s); now != r.statusTold {
		r.statusTold = now
		r.tell.stateChanged()
		if now == "" {
			r.tell.recovered()
		}
	}
	r.contact()
	if refused {
		r.tell.stateChanged()
	}
	r.tellOf(store.Diff(old, s, ""), old == nil)
	return nil
}

// tellOf tells which bindings these changed paths are of.
func (r *Repository) tellOf(changes iter.Seq[store.Change], first bool) {
	byBinding, observed := sortChanges(changes, first)
	for binding, c := range byBinding {
		if c.Request && r.OnRequest != nil {
			r.OnRequest(binding)
		}
	}
	r.tell.each(func(binding string) *Change {
		c := byBinding[binding]
		if c == nil && observed {
			c = &Change{}
		}
		if c != nil {
			c.Observed = observed
		}
		return c
	})
}

// sortChanges sorts changed paths by binding. Observed says that the control plane has
// seen a newer main.
func sortChanges(changes iter.Seq[store.Change], first bool) (byBinding map[string]*Change, observed bool) {
	byBinding = map[string]*Change{}
	of := func(binding string) *Change {
		if byBinding[binding] == nil {
			byBinding[binding] = &Change{First: first}
		}
		return byBinding[binding]
	}
	for c := range changes {
		if c.Path == contract.ObservedPath {
			observed = true
			continue
		}
		if key, err := contract.ParsePath(c.Path); err == nil {
			of(key.Binding).Claims = append(of(key.Binding).Claims, key)
		} else if key, ok := contract.ParseInputsPath(c.Path); ok {
			of(key.Binding).Claims = append(of(key.Binding).Claims, key)
		} else if key, err := contract.ParseSecretPath(c.Path); err == nil {
			of(key.Binding).Secrets = append(of(key.Binding).Secrets, key)
		} else if binding, ok := exportOf(c.Path); ok {
			of(binding).Export = true
		} else if binding, ok := contract.ParseRequestPath(c.Path); ok {
			of(binding).Request = true
		}
	}
	return byBinding, observed
}
