// Package quota keeps the accounts of quotas of one app cluster while its claims are applied:
// it counts what is there and what is about to be, and lets in who waits in the order in which
// they came. It neither reads nor writes an object.
package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/quota"
)

// Load gives the objects of all of a cluster's claims of an API.
type Load func(ctx context.Context, each func(contract.Key, map[string]any)) error

// Ledgers are those of one app cluster, one for each API.
type Ledgers struct {
	// Called has a claim looked at again for which there may be room, and Changed is told of
	// each binding of which Usage may be another. They must not block.
	Called  func(contract.Key)
	Changed func(binding string)

	mu  sync.Mutex
	all map[string]*ledger
}

func (l *Ledgers) of(binding string) *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*ledger{}
	}
	if l.all[binding] == nil {
		l.all[binding] = &ledger{Account: quota.NewAccount(), pending: map[contract.Key]*int64{}}
	}
	return l.all[binding]
}

// ledger is what there is of one API.
type ledger struct {
	mu sync.Mutex
	// quota is what the rest was counted by; "" before it was counted.
	quota string
	*quota.Account
	// pending are claims that are not applied yet, with what they weighed before, nil for
	// nothing. Meanwhile they count the larger one of that, and what they will.
	pending map[contract.Key]*int64
}

// Take lets a claim in, or says why not: then it waits, and is called when there may be
// room. One that has as much already, and one that must go on as it was, is always let in.
func (l *Ledgers) Take(ctx context.Context, key contract.Key, q *v1alpha1.Quota, object map[string]any, must bool, load Load) (why string, err error) {
	g := l.of(key.Binding)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.count(ctx, key.Binding, q, load); err != nil {
		return "", err
	}
	weight := quota.Weight(q, object)
	if !must {
		if why = g.Refusal(q, key, weight); why != "" {
			if g.Wait(key, weight) {
				l.Changed(key.Binding)
			}
			return why, nil
		}
	}
	has, had := g.Weight(key)
	if _, isPending := g.pending[key]; !isPending {
		g.pending[key] = nil
		if had {
			g.pending[key] = &has
		}
	}
	counts, left := g.Set(key, max(weight, has)), g.Leave(key)
	if counts || left {
		l.Changed(key.Binding)
	}
	l.callNext(g, q)
	return "", nil
}

// Applied notes that a claim has what it was let in with.
func (l *Ledgers) Applied(key contract.Key, q *v1alpha1.Quota, object map[string]any) {
	g := l.of(key.Binding)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.Weight(key); ok {
		delete(g.pending, key)
		if g.Set(key, quota.Weight(q, object)) {
			l.Changed(key.Binding)
		}
		l.callNext(g, q)
	}
}

// Settle notes, at the end of a look at a claim, whether it has an object, and whether it
// waits for room. Without a quota all is forgotten: another one counts again.
func (l *Ledgers) Settle(key contract.Key, q *v1alpha1.Quota, exists, waits bool) {
	if q == nil {
		l.mu.Lock()
		delete(l.all, key.Binding)
		l.mu.Unlock()
		return
	}
	g := l.of(key.Binding)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.quota == "" {
		return
	}
	_, known := g.Weight(key)
	before, isPending := g.pending[key]
	changed := !waits && g.Leave(key)
	switch {
	case exists && !known:
		// It was applied before there was a quota, while that was counted.
		g.quota = ""
		l.Changed(key.Binding)
	case known && !exists:
		g.Remove(key)
		delete(g.pending, key)
		changed = true
	case isPending:
		if before != nil {
			g.Set(key, *before)
			delete(g.pending, key)
		}
		changed = true
	}
	if changed {
		l.callNext(g, q)
		l.Changed(key.Binding)
	}
}

// Usage is what there is of an API, and counts it where that was not done by this quota.
func (l *Ledgers) Usage(ctx context.Context, binding string, q *v1alpha1.Quota, load Load) (*v1alpha1.QuotaUsage, error) {
	g := l.of(binding)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.count(ctx, binding, q, load); err != nil {
		return nil, err
	}
	return g.Usage(q), nil
}

// countTimeout is how long it may take to list an API's claims. All looks at them wait meanwhile.
const countTimeout = time.Minute

// count counts all that is there, once for each quota.
func (g *ledger) count(ctx context.Context, binding string, q *v1alpha1.Quota, load Load) error {
	if g.quota == q.String() {
		return nil
	}
	counted := g.Waiting()
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	if err := load(ctx, func(key contract.Key, object map[string]any) {
		counted.Set(key, quota.Weight(q, object))
	}); err != nil {
		return fmt.Errorf("count the claims of %s: %w", binding, err)
	}
	for key := range g.pending {
		// Others are applying it now.
		weight, _ := g.Weight(key)
		has, had := counted.Weight(key)
		g.pending[key] = nil
		if had {
			g.pending[key] = &has
		}
		counted.Set(key, max(weight, has))
	}
	g.quota, g.Account = q.String(), counted
	return nil
}

// callNext calls the first one that waits and fits in.
func (l *Ledgers) callNext(g *ledger, q *v1alpha1.Quota) {
	if key, ok := g.Next(q); ok {
		l.Called(key)
	}
}
