package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

// straight has somebody push n changes to main with stock git, each after an edit that the
// relay carries. A push is timed twice: from when git is started, and from when git, which
// has started and knows what the host has, sends it.
func (r *run) straight(ctx context.Context, repository, token string, n int) error {
	address, err := url.Parse(repository)
	if err != nil {
		return err
	}
	gate, err := newGate(ctx, &url.URL{Scheme: address.Scheme, Host: address.Host})
	if err != nil {
		return err
	}
	defer gate.Close()
	address.User, address.Host = url.UserPassword("alice", token), gate.address
	floor, subject, err := r.ways(ctx, n)
	if err != nil {
		return err
	}
	clone, err := r.clone(ctx, address.String())
	if err != nil {
		return err
	}
	defer os.RemoveAll(clone)
	var started, control, app figure.Samples
	for i, name := range subject.names {
		if err := r.edit(ctx, floor, i); err != nil {
			return err
		}
		if _, err := r.commit(ctx, clone, claimPath(stage.Namespace(i%namespaces), name), edited); err != nil {
			return err
		}
		if err := r.Quiet(ctx, still/4); err != nil {
			return err
		}
		began := time.Now()
		if _, err := r.git(ctx, clone, "push", "--quiet", "origin", "HEAD:refs/heads/main"); err != nil {
			return err
		}
		sent := gate.sent()
		there, err := r.SeenControl.Until(ctx, stage.Subject, name, isEdited)
		if err != nil {
			return err
		}
		here, err := r.SeenApp.Until(ctx, stage.Subject, name, isEdited)
		if err != nil {
			return err
		}
		started.Milliseconds(here.Changed.Sub(began))
		control.Milliseconds(there.Changed.Sub(sent))
		app.Milliseconds(here.Changed.Sub(sent))
		if _, err := r.SeenApp.Until(ctx, stage.Subject, name, returned(stage.Subject)); err != nil {
			return err
		}
	}
	r.add(figure.Of("git push to main → claim changed in both clusters", r.size, "ms", started, floor.edit))
	r.add(figure.Of("git push to main, without git's own start → claim changed on the control plane", r.size, "ms", control, floor.edit))
	r.add(figure.Of("git push to main, without git's own start → claim changed in the app cluster", r.size, "ms", app, floor.edit).Judged(figure.RatioAtMost(2.5, "≤ 2.5 × the floor")))
	return nil
}

// gate passes on what git asks a host for, and notes when it sent a push last.
type gate struct {
	*http.Server
	address string
	last    atomic.Pointer[time.Time]
}

func newGate(ctx context.Context, host *url.URL) (*gate, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{address: listener.Addr().String()}
	proxy := httputil.NewSingleHostReverseProxy(host)
	g.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/git-receive-pack") {
			g.last.Store(new(time.Now()))
		}
		proxy.ServeHTTP(w, req)
	})}
	go func() { _ = g.Serve(listener) }()
	return g, nil
}

// sent is when the last push was sent.
func (g *gate) sent() time.Time { return *g.last.Load() }

// git runs git as somebody who has a clone. The credential is in its URL: a helper has none
// to keep.
func (r *run) git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := r.Git(ctx, env.Alice, dir, append([]string{"-c", "credential.helper="}, args...)...)
	return strings.TrimSpace(out), err
}

// clone makes a clone in a folder of its own.
func (r *run) clone(ctx context.Context, url string) (dir string, err error) {
	dir = filepath.Join(r.Dir, r.newNames("clone", 1)[0])
	_, err = r.git(ctx, r.Dir, "clone", "--quiet", url, dir)
	return dir, err
}

// commit makes a commit on top of main with one change of a claim's file.
func (r *run) commit(ctx context.Context, clone, path string, maxConnections int) (commit string, err error) {
	for _, args := range [][]string{{"fetch", "--quiet", "origin", "main"}, {"checkout", "--quiet", "--detach", "FETCH_HEAD"}} {
		if _, err := r.git(ctx, clone, args...); err != nil {
			return "", err
		}
	}
	file := filepath.Join(clone, path)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed := bytes.Replace(text, []byte("maxConnections: 120\n"), fmt.Appendf(nil, "maxConnections: %d\n", maxConnections), 1)
	if bytes.Equal(changed, text) {
		return "", errors.New(path + " has no field to change")
	}
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		return "", err
	}
	if _, err := r.git(ctx, clone, "commit", "--quiet", "--all", "--message", "Change "+path); err != nil {
		return "", err
	}
	return r.git(ctx, clone, "rev-parse", "HEAD")
}
