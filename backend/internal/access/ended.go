package access

import (
	"context"
	"sync"
	"time"
)

// End refuses tokens, by their hashes, from now on: a cache may let them in for
// a moment longer. Requests of theirs that are under way end if cut, and may
// come to their end if not.
func (a *Authenticator) End(cluster string, hashes []string, cut bool) {
	these := map[string]bool{}
	for _, hash := range hashes {
		a.ended.Store(hash, a.Now())
		these[hash] = true
	}
	// No token comes back, and by then each cache has heard of it.
	a.ended.Range(func(hash, at any) bool {
		if a.Now().Sub(at.(time.Time)) > endedKept {
			a.ended.Delete(hash)
		}
		return true
	})
	if cut {
		a.underway.endIf(cluster, func(r *request) bool { return these[r.hash] })
		return
	}
	a.underway.let(cluster, these)
}

// SecretChanged judges again the requests of an agent that are under way, as
// somebody changed or removed its Secret.
func (a *Authenticator) SecretChanged(ctx context.Context, cluster string, role Role) {
	for _, hash := range a.underway.hashes(cluster, role) {
		// The API server, as this may be the news of a change before the last one.
		// What it does not answer for ends, too: it comes back and is judged.
		if _, err := a.judgeLive(ctx, cluster, hash, role); err != nil {
			if n := a.underway.endIf(cluster, func(r *request) bool { return r.hash == hash && !r.finishing }); n > 0 {
				a.Log.InfoContext(ctx, "Requests ended with their credential", "cluster", cluster, "by", role.String(), "requests", n)
			}
		}
	}
}

const (
	// endedKept is how long to remember what has ended: longer than any cache
	// lags, and short enough for a konnector that renews all the time.
	endedKept = time.Hour
	// promoteTimeout is how long the first use of a credential may wait for the
	// API server.
	promoteTimeout = 2 * time.Second
	// promoteAgain is how long to leave it at that.
	promoteAgain = 30 * time.Second
)

// promotions remember what was said of first uses, so that each costs one
// request and not one for each use until a cache has heard of it.
type promotions struct {
	mu sync.Mutex
	of map[string]promotion
}

type promotion struct {
	hash string
	// again is when to try again; zero when it is done.
	again time.Time
}

// due reports whether a first use is to be told, and if so notes that it is.
func (p *promotions) due(cluster, hash string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.of[cluster]; ok && last.hash == hash && (last.again.IsZero() || now.Before(last.again)) {
		return false
	}
	if p.of == nil {
		p.of = map[string]promotion{}
	}
	p.of[cluster] = promotion{hash, now.Add(promoteAgain)}
	return true
}

func (p *promotions) done(cluster, hash string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[cluster] = promotion{hash: hash}
}

// promote has the first use of a credential end the one before it. It counts
// while that cannot be written, and the one before it does so, too.
func (a *Authenticator) promote(ctx context.Context, cluster, hash string) error {
	if a.Keys == nil || !a.promotions.due(cluster, hash, a.Now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), promoteTimeout)
	defer cancel()
	switch ok, err := a.Keys.Promote(ctx, cluster, hash); {
	case err != nil:
		a.Log.WarnContext(ctx, "The credential before a renewed one still counts", "cluster", cluster, "error", err)
		return nil
	case !ok:
		return errWho()
	}
	a.promotions.done(cluster, hash)
	a.Log.InfoContext(ctx, "A renewed credential is in use", "cluster", cluster)
	return nil
}
