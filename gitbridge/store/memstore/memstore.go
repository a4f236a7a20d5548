// Package memstore is a Git remote in memory, for tests: any number of clients,
// the same trees, hashes and commits as a real one makes, and faults at will.
// It keeps everything and speaks no protocol.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/branch"
)

// Op is a request to the remote.
type Op string

// The requests that a client makes.
const (
	Head Op = "head"
	Load Op = "load"
	Push Op = "push"
	Log  Op = "log"
)

// Call is one request to the remote, before or after it took effect.
type Call struct {
	Op     Op
	Branch string
	After  bool
	// Pushed is what a Push wants the branch to be; nil for none.
	Pushed *store.Snapshot
}

// Remote is a repository.
type Remote struct {
	// Committer is the committer of the commits of all clients that are made
	// afterwards.
	Committer store.Signature
	// Signer signs the commits of main and status, by clients that are made from then on; nil
	// for none.
	Signer *signing.Signer
	// Now is their clock. Default: time.Now.
	Now func() time.Time

	mu      sync.Mutex
	fault   func(Call) error
	heads   map[string]store.Hash
	commits map[store.Hash]*store.Snapshot
	pushes  int
}

// New returns an empty repository.
func New() *Remote {
	return &Remote{
		Committer: store.Signature{Name: "memstore", Email: "memstore@example.org"},
		heads:     map[string]store.Hash{},
		commits:   map[store.Hash]*store.Snapshot{},
	}
}

// Branch returns a new client of a branch, with its own knowledge.
func (r *Remote) Branch(name string) store.Branch {
	return branch.New(&remoteBranch{r, name}, branch.Options{Name: name, Committer: r.Committer, Signer: r.Signer, Now: r.Now, TrustHints: true})
}

// SetFault sets a function that is called before and after each request took
// effect (nil: none). Its error is the client's: one that wraps
// store.ErrRejected, store.ErrConflict, store.ErrUnauthorized or
// store.ErrRepositoryNotFound is the remote's answer, any other one is an error
// of transport. With After, the request took effect and its answer is lost. It
// may block, and may use other clients.
func (r *Remote) SetFault(f func(Call) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
}

// CutAfterPush has the next push take effect, and its answer and all requests after it lost, until
// SetFault is called: to the clients, they end in err.
func (r *Remote) CutAfterPush(err error) {
	var cut atomic.Bool
	r.SetFault(func(c Call) error {
		if c.Op == Push && c.After {
			cut.Store(true)
		}
		if cut.Load() {
			return err
		}
		return nil
	})
}

// Head is where a branch is; "" if it does not exist.
func (r *Remote) Head(name string) store.Hash {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heads[name]
}

// ForceHead sets a branch to a commit that the remote has; "" removes it.
func (r *Remote) ForceHead(name string, to store.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to == "" {
		delete(r.heads, name)
		return
	}
	if r.commits[to] == nil {
		panic(fmt.Sprintf("memstore: no commit %s", to))
	}
	r.heads[name] = to
}

// Forget takes a commit away that no branch has any more: one that is restored from an older
// backup lacks it.
func (r *Remote) Forget(commit store.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.commits, commit)
}

// Pushes is how many pushes took effect.
func (r *Remote) Pushes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pushes
}

// History is a branch's commits, newest first.
func (r *Remote) History(name string) (commits []store.Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.walk(r.heads[name], map[store.Hash]bool{}, func(s *store.Snapshot) {
		commits = append(commits, s.Commit())
	})
	return commits
}

// remoteBranch is a branch as a client reaches it.
type remoteBranch struct {
	remote *Remote
	name   string
}

// call makes a request, with its faults.
func (b *remoteBranch) call(ctx context.Context, c Call, do func(r *Remote) error) error {
	c.Branch = b.name
	b.remote.mu.Lock()
	fault := b.remote.fault
	b.remote.mu.Unlock()
	if fault != nil {
		if err := fault(c); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b.remote.mu.Lock()
	err := do(b.remote)
	b.remote.mu.Unlock()
	if err == nil && fault != nil {
		c.After = true
		err = fault(c)
	}
	return err
}

func (b *remoteBranch) Head(ctx context.Context) (head store.Hash, err error) {
	err = b.call(ctx, Call{Op: Head}, func(r *Remote) error {
		head = r.heads[b.name]
		return nil
	})
	return head, err
}

func (b *remoteBranch) Load(ctx context.Context, tip store.Hash, _ *store.Snapshot) (s *store.Snapshot, _ []store.Commit, err error) {
	err = b.call(ctx, Call{Op: Load}, func(r *Remote) error {
		if r.heads[b.name] != tip {
			return branch.ErrGone
		}
		s = r.commits[tip]
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return s, []store.Commit{s.Commit()}, nil
}

func (b *remoteBranch) At(ctx context.Context, commit store.Hash, _ *store.Snapshot) (s *store.Snapshot, err error) {
	err = b.call(ctx, Call{Op: Load}, func(r *Remote) error {
		if s = r.commits[commit]; s == nil {
			return branch.ErrGone
		}
		return nil
	})
	return s, err
}

func (b *remoteBranch) Push(ctx context.Context, p branch.Push) error {
	return b.call(ctx, Call{Op: Push, Pushed: p.New()}, func(r *Remote) error {
		if r.heads[b.name] != p.Old {
			return fmt.Errorf("%w: %s is at %s", store.ErrConflict, b.name, r.heads[b.name].Short())
		}
		if p.Removes() {
			delete(r.heads, b.name)
			r.pushes++
			return nil
		}
		for _, parent := range p.Commits[0].Commit().Parents {
			if r.commits[parent] == nil {
				return fmt.Errorf("%w: missing necessary objects: %s", store.ErrConflict, parent.Short())
			}
		}
		for _, s := range p.Commits {
			r.commits[s.Head()] = s
		}
		r.heads[b.name] = p.New().Head()
		r.pushes++
		return nil
	})
}

func (b *remoteBranch) Log(ctx context.Context, since, to store.Hash, depth int) (commits []store.Commit, err error) {
	err = b.call(ctx, Call{Op: Log}, func(r *Remote) error {
		if r.commits[to] == nil {
			to = r.heads[b.name] // as gitstore does
		}
		if r.commits[to] == nil {
			return fmt.Errorf("%w: no commit %s", branch.ErrGone, to)
		}
		seen := map[store.Hash]bool{}
		r.walk(since, seen, func(*store.Snapshot) {})
		away := map[store.Hash]int{}
		r.walk(to, seen, func(s *store.Snapshot) {
			commit := s.Commit()
			if depth > 0 && away[commit.Hash] >= depth {
				return
			}
			commits = append(commits, commit)
			for _, p := range commit.Parents {
				if _, known := away[p]; !known {
					// They are visited the nearest first.
					away[p] = away[commit.Hash] + 1
				}
			}
		})
		return nil
	})
	return commits, err
}

func (r *Remote) walk(from store.Hash, seen map[store.Hash]bool, visit func(*store.Snapshot)) {
	for todo := []store.Hash{from}; len(todo) > 0; {
		s := r.commits[todo[0]]
		todo = todo[1:]
		if s == nil || seen[s.Head()] {
			continue
		}
		seen[s.Head()] = true
		visit(s)
		todo = append(todo, s.Commit().Parents...)
	}
}
