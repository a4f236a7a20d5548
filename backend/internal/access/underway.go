package access

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errEnded is why a request ends whose credential does not count any more.
var errEnded = errors.New("the credential of this request has ended")

// underway are the requests that are being served, so that those of an agent can
// be ended with its credential: an open stream of events, or a push that is
// still being sent.
type underway struct {
	mu sync.Mutex
	of map[string]map[*request]struct{}
}

// request is one that is being served. What is below mu belongs to underway.mu.
type request struct {
	end func(error)
	ctl *http.ResponseController

	cluster, hash string
	role          Role
	// finishing may come to its end though its credential has not.
	finishing bool
	expires   *time.Timer
}

type requestKey struct{}

// Handler serves next, and ends its requests when the credential that let them
// in counts no longer.
func (a *Authenticator) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		req := &request{end: cancel, ctl: http.NewResponseController(w)}
		defer cancel(nil)
		defer a.underway.remove(req)
		r = r.WithContext(context.WithValue(ctx, requestKey{}, req))
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &body{r.Body, ctx}
		}
		next.ServeHTTP(w, r)
		if a.underway.remove(req); errors.Is(context.Cause(ctx), errEnded) {
			// Half an answer must not look like a whole one.
			panic(http.ErrAbortHandler)
		}
	})
}

// body ends with its request: a handler may have given the connection another
// deadline meanwhile.
type body struct {
	io.ReadCloser
	ctx context.Context
}

func (b *body) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// add notes who makes a request, and until when it may last at most.
func (u *underway) add(ctx context.Context, cluster string, role Role, hash string, left time.Duration) {
	req, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if req.cluster != "" {
		return // it is looked at again
	}
	req.cluster, req.role, req.hash = cluster, role, hash
	if u.of == nil {
		u.of = map[string]map[*request]struct{}{}
	}
	if u.of[cluster] == nil {
		u.of[cluster] = map[*request]struct{}{}
	}
	u.of[cluster][req] = struct{}{}
	if left > 0 {
		req.expires = time.AfterFunc(left, func() { u.endIf(cluster, func(other *request) bool { return other == req }) })
	}
}

func (u *underway) remove(req *request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if req.expires != nil {
		req.expires.Stop()
	}
	delete(u.of[req.cluster], req)
	if len(u.of[req.cluster]) == 0 {
		delete(u.of, req.cluster)
	}
}

// endIf ends the requests of a cluster's agents that are meant.
func (u *underway) endIf(cluster string, meant func(*request) bool) (ended int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for req := range u.of[cluster] {
		if !meant(req) {
			continue
		}
		ended++
		req.end(errEnded)
		// No read from the client, and no write to it, waits any longer. Not every
		// writer has deadlines (tests).
		past := time.Unix(1, 0)
		_ = req.ctl.SetReadDeadline(past)
		_ = req.ctl.SetWriteDeadline(past)
	}
	return ended
}

// hashes are the tokens with which requests of an agent are under way.
func (u *underway) hashes(cluster string, role Role) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []string
	for req := range u.of[cluster] {
		if req.role == role && !req.finishing {
			all = append(all, req.hash)
		}
	}
	return all
}

// let has requests finish though their credential ends.
func (u *underway) let(cluster string, hashes map[string]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for req := range u.of[cluster] {
		if hashes[req.hash] {
			req.finishing = true
		}
	}
}
