package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

const (
	dora = "dora" // a developer of the app cluster, who has nothing to do with gitbind

	readHeaderTimeout = 5 * time.Second
)

// up runs what is not ours until ctx ends, and says at /readyz whether it is ready.
func (l *loop) up(ctx context.Context, w io.Writer) (err error) {
	chosen, err := l.readPorts()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address(chosen[clusters]))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-orphaned(ctx):
			end()
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	// Of an earlier run; this one's clusters know nothing of them.
	for _, old := range []string{"git", "home", "clone"} {
		if err := os.RemoveAll(filepath.Join(l.dir, old)); err != nil {
			return err
		}
	}
	p, err := platform.Start(ctx, platform.Options{Dir: l.dir, Bin: l.bin, NoComponents: true, Progress: w})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(context.WithoutCancel(ctx))) }()
	if _, err := p.Developer(ctx, env.App, dora); err != nil {
		return err
	}
	fmt.Fprintf(w, "Ready after %s.\n\n  app cluster    export KUBECONFIG=%s\n  control plane  export KUBECONFIG=%s\n  kubectl        %s\n  logs           %s\n",
		time.Since(began).Round(100*time.Millisecond), p.App(), p.Control(), p.Env.Kubectl, filepath.Join(p.Dir, "logs"))
	server := &http.Server{Handler: ready(p), ReadHeaderTimeout: readHeaderTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// ready names what is not ready.
func ready(p *platform.Platform) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, process := range p.Processes() {
			if err := process.Ready(r.Context()); err != nil {
				http.Error(w, fmt.Sprintf("%s: %v", process.Name, err), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
}
