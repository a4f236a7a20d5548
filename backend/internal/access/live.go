package access

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/refusal"
)

const (
	// readEvery is how often one cluster's Secret is read for tokens that no cache
	// knows. Those that come meanwhile wait for the next time, together.
	readEvery = time.Second
	// readsPerSecond and readsAtOnce bound that over all clusters, and what people
	// ask about clusters that no cache knows.
	readsPerSecond, readsAtOnce = 20, 50
	// refusedKept is how long a token that the API server's own answer has refused
	// is refused without asking again, and refusedMost how many are remembered.
	refusedKept, refusedMost = 10 * time.Second, 10_000
)

// errTooMany is for those who come when too many have asked. It says nothing
// about a token.
func errTooMany() error {
	return refusal.New(refusal.Unavailable, "too many credentials are being looked at just now: try again")
}

// liveReads are what strangers can make the API server do: one read of a Secret
// answers all who wait for it, and there are so many in a second and no more.
type liveReads struct {
	every time.Duration
	limit *rate.Limiter
	// refused has errors by cluster, role and hash.
	refused *utilcache.LRUExpireCache

	mu sync.Mutex
	// next are the reads that have not begun, and last when the one before began.
	next map[client.ObjectKey]*liveRead
	last *utilcache.LRUExpireCache
}

type liveRead struct {
	done   chan struct{}
	secret corev1.Secret
	err    error
}

func newLiveReads(every time.Duration) *liveReads {
	return &liveReads{
		every: every, limit: rate.NewLimiter(readsPerSecond, readsAtOnce), refused: utilcache.NewLRUExpireCache(refusedMost),
		next: map[client.ObjectKey]*liveRead{}, last: utilcache.NewLRUExpireCache(refusedMost),
	}
}

// reads are made when they are first needed.
func (a *Authenticator) reads() *liveReads {
	a.readsOnce.Do(func() {
		if a.liveReads == nil {
			a.liveReads = newLiveReads(readEvery)
		}
	})
	return a.liveReads
}

// secret is a Secret as the API server has it, read after it was asked for. What
// it returns is shared.
func (l *liveReads) secret(ctx context.Context, live client.Reader, key client.ObjectKey) (*corev1.Secret, error) {
	l.mu.Lock()
	r := l.next[key]
	if r == nil {
		if !l.limit.Allow() {
			l.mu.Unlock()
			return nil, errTooMany()
		}
		r = &liveRead{done: make(chan struct{})}
		l.next[key] = r
		go l.read(context.WithoutCancel(ctx), live, key, r)
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return &r.secret, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *liveReads) read(ctx context.Context, live client.Reader, key client.ObjectKey, r *liveRead) {
	if last, ok := l.last.Get(key); ok {
		time.Sleep(l.every - time.Since(last.(time.Time)))
	}
	l.mu.Lock()
	// Who comes from here on may ask for what was written since.
	delete(l.next, key)
	l.last.Add(key, time.Now(), l.every)
	l.mu.Unlock()
	r.err = within(ctx, live, key, &r.secret)
	close(r.done)
}

// refusal is what was said of a token a moment ago, or nil.
func (l *liveReads) refusal(token string) error {
	if err, ok := l.refused.Get(token); ok {
		return err.(error)
	}
	return nil
}

// note keeps a refusal, but none of trouble that passes.
func (l *liveReads) note(token string, err error) {
	if refusal.Is(err, refusal.Unauthenticated) {
		l.refused.Add(token, err, refusedKept)
	}
}
