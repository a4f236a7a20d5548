package repository

import (
	"context"
	"sync"
	"time"
)

// Pool holds the open repositories, by the names of their Connections.
type Pool struct {
	mu        sync.Mutex
	open      map[string]*opened
	ended     bool
	listeners []func(connection string)
	progress  []func(connection string)
	requests  []func(binding string)
}

type opened struct {
	repository *Repository
	cancel     context.CancelFunc
	done       chan struct{}
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{open: map[string]*opened{}} }

// OnChange calls fn when a repository was opened or closed, or its state has
// changed. It must not block, and must not call back. It is for the time of
// wiring: before anything is opened.
func (p *Pool) OnChange(fn func(connection string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, fn)
}

// OnProgress calls fn when main of a repository has moved, and nothing else has changed of
// its state. The rules are those of OnChange, whose listeners do not hear of it.
func (p *Pool) OnProgress(fn func(connection string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress = append(p.progress, fn)
}

// OnRequest calls fn with each binding whose request.yaml changed, or the answer to
// it, in any repository. The rules are those of OnChange.
func (p *Pool) OnRequest(fn func(binding string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, fn)
}

func (p *Pool) requested(binding string) { p.tell(&p.requests, binding) }

func (p *Pool) changed(connection string) { p.tell(&p.listeners, connection) }

func (p *Pool) progressed(connection string) { p.tell(&p.progress, connection) }

// tell calls listeners without the lock, with the name of what they are told of.
func (p *Pool) tell(listeners *[]func(string), name string) {
	p.mu.Lock()
	all := *listeners
	p.mu.Unlock()
	for _, fn := range all {
		fn(name)
	}
}

// Get returns the repository of a Connection; nil when it is not open.
func (p *Pool) Get(connection string) *Repository {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.open[connection]; o != nil {
		return o.repository
	}
	return nil
}

// All returns the open repositories.
func (p *Pool) All() []*Repository {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*Repository
	for _, o := range p.open {
		all = append(all, o.repository)
	}
	return all
}

// Open runs the repository of a Connection in the place of the one before. In a
// pool that has ended, it does not run: nothing would close it.
func (p *Pool) Open(ctx context.Context, o Options) *Repository {
	p.Close(o.Connection)
	o.OnState = func() { p.changed(o.Connection) }
	o.OnProgress = func() { p.progressed(o.Connection) }
	o.OnRequest = p.requested
	r := New(o)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	entry := &opened{repository: r, cancel: cancel, done: make(chan struct{})}
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.open[o.Connection] = entry
	}
	p.mu.Unlock()
	if ended {
		r.Suspend()
		cancel()
	}
	go func() {
		defer close(entry.done)
		r.Run(run)
	}()
	p.changed(o.Connection)
	return r
}

// Close stops the repository of a Connection, if it is open.
func (p *Pool) Close(connection string) {
	p.mu.Lock()
	o := p.open[connection]
	delete(p.open, connection)
	p.mu.Unlock()
	if o == nil {
		return
	}
	// Those who still have it must not push any more.
	o.repository.Suspend()
	o.cancel()
	<-o.done
	p.changed(connection)
}

// saveTimeout is how long the end of the process may wait for what was
// accepted to be saved.
const saveTimeout = 5 * time.Second

// Start closes all when ctx ends, and saves what they have accepted.
func (p *Pool) Start(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	for _, r := range p.All() {
		p.Close(r.Connection)
		// What is not saved is learned again.
		_ = r.Checkpoints.Close(save)
	}
	return nil
}
