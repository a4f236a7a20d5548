package env

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// A Pool keeps what tests work in, and what takes long to start: a test has one to
// itself until it ends, then another test has it. There are as many as tests run
// side by side.
type Pool[T interface{ Stop(context.Context) error }] struct {
	// Start starts one more.
	Start func(context.Context) (T, error)
	// Reset makes one that a test has used ready for another.
	Reset func(context.Context, T) error

	mu        sync.Mutex
	all, idle []T
	used      map[testing.TB]T
}

// Take is a test's own until it ends: the same one each time that the test asks. It
// skips the test under -short.
func (p *Pool[T]) Take(t testing.TB) T {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real API servers: not with -short")
	}
	one, has, again := p.take(t)
	if has {
		return one
	}
	var err error
	if again {
		err = p.Reset(t.Context(), one)
	} else {
		one, err = p.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !again {
		p.all = append(p.all, one)
	}
	if p.used == nil {
		p.used = map[testing.TB]T{}
	}
	p.used[t] = one
	t.Cleanup(func() { p.giveBack(t, one) })
	return one
}

// take is what the test has, or else an idle one, which was used by another before.
func (p *Pool[T]) take(t testing.TB) (one T, has, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, has = p.used[t]; has {
		return one, true, true
	}
	if n := len(p.idle); n > 0 {
		one, p.idle = p.idle[n-1], p.idle[:n-1]
		return one, false, true
	}
	return one, false, false
}

// giveBack lets another test have it, unless the test has failed: nobody knows what
// that has left.
func (p *Pool[T]) giveBack(t testing.TB, one T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, t)
	if !t.Failed() {
		p.idle = append(p.idle, one)
	}
}

// Stop stops all of them. It is for the end of TestMain.
func (p *Pool[T]) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, one := range p.all {
		errs = append(errs, one.Stop(ctx))
	}
	return errors.Join(errs...)
}
