package embedded

import (
	"context"
	"slices"
	"sync"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
)

// maxWait is how long a request waits for its place.
const maxWait = 20 * time.Second

// holder is for whom a place is taken.
type holder struct {
	// owner is whose cluster it is, and cluster the cluster's id.
	owner, cluster string
	role           access.Role
	// name is whose account it is.
	name string
}

// places bounds what is in work at the same time: all of it, that of one owner
// and of one cluster, each role for itself, and of the whole what people and
// konnectors may take. Whatever these do, the bridge finds a place; and whatever
// people do, so do konnectors.
type places struct {
	total, perOwner, perCluster int
	// waiters bounds how many wait for an owner's places.
	waiters int
	wait    time.Duration

	mu      sync.Mutex
	taken   int
	owners  map[holder]int
	cluster map[holder]int
	// queue holds who waits, in the order of arrival.
	queue []*waiter
}

type waiter struct {
	holder
	admitted chan struct{}
}

func newPlaces(total, perOwner, perCluster int) *places {
	return &places{
		total: total, perOwner: perOwner, perCluster: perCluster, waiters: 4 * perOwner, wait: maxWait,
		owners: map[holder]int{}, cluster: map[holder]int{},
	}
}

// byOwner and byCluster are the keys under which a holder is counted.
func (w holder) byOwner() holder   { return holder{owner: w.owner, role: w.role} }
func (w holder) byCluster() holder { return holder{cluster: w.cluster, role: w.role} }

// share is what a role may fill of something that all share: people leave room
// for the konnectors, whose credentials tenants hold, and both for the bridge.
func share(role access.Role, all int64) int64 {
	switch role {
	case access.Bridge:
		return all
	case access.Konnector:
		return all * 3 / 4
	}
	return all / 2
}

// enter waits for a place.
func (p *places) enter(ctx context.Context, who holder) (leave func(), err error) {
	busy := func() error { return refusal.New(refusal.Unavailable, "the Git host is busy: try again") }
	p.mu.Lock()
	if p.fits(who) {
		p.take(who)
		p.mu.Unlock()
		return func() { p.leave(who) }, nil
	}
	if p.waiting(who) >= p.waiters {
		p.mu.Unlock()
		return nil, busy()
	}
	w := &waiter{who, make(chan struct{})}
	p.queue = append(p.queue, w)
	p.mu.Unlock()

	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	select {
	case <-w.admitted:
		return func() { p.leave(who) }, nil
	case <-timer.C:
		err = busy()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if p.giveUp(w) {
		return nil, err
	}
	// It was admitted at the same time.
	return func() { p.leave(who) }, nil
}

func (p *places) fits(who holder) bool {
	return int64(p.taken) < share(who.role, int64(p.total)) &&
		p.owners[who.byOwner()] < p.perOwner && p.cluster[who.byCluster()] < p.perCluster
}

func (p *places) waiting(who holder) (n int) {
	for _, w := range p.queue {
		if w.byOwner() == who.byOwner() {
			n++
		}
	}
	return n
}

func (p *places) take(who holder) {
	p.taken++
	p.owners[who.byOwner()]++
	p.cluster[who.byCluster()]++
}

// leave frees a place, and admits those who waited and fit now.
func (p *places) leave(who holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	for key, count := range map[holder]map[holder]int{who.byOwner(): p.owners, who.byCluster(): p.cluster} {
		if count[key]--; count[key] == 0 {
			delete(count, key)
		}
	}
	p.queue = slices.DeleteFunc(p.queue, func(w *waiter) bool {
		if !p.fits(w.holder) {
			return false
		}
		p.take(w.holder)
		close(w.admitted)
		return true
	})
}

// giveUp takes a waiter out of the queue, and is false when it was admitted.
func (p *places) giveUp(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.queue, w)
	if i < 0 {
		return false
	}
	p.queue = slices.Delete(p.queue, i, i+1)
	return true
}
