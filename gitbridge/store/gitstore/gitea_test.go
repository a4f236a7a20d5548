package gitstore_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gitbind.dev/test/env"
)

var onGitea = flag.Bool("gitea", false, "run all tests that have a host against Gitea, which is built first (6 minutes)")

// gitea is the host of all repositories; nil when it is git's own program.
var gitea *env.Gitea

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if *onGitea {
		e, err := env.Start(context.Background(), env.Options{Clusters: []string{}, Gitea: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = e.Stop(context.Background()) }()
		gitea = e.Gitea
	}
	return m.Run()
}

var giteaRepositories atomic.Int64

// useGitea is a new repository there, behind the same proxy with faults.
func (h *host) useGitea(g *env.Gitea) {
	name := fmt.Sprint("repo", giteaRepositories.Add(1))
	if err := g.Create(h.t.Context(), name); err != nil {
		h.t.Fatal(err)
	}
	h.dir = filepath.Join(g.Repositories, g.User, name+".git")
	h.hook = filepath.Join(h.dir, "hooks", "pre-receive.d", "of-a-test")
	target, err := url.Parse(g.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	h.backend = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			rest, _ := strings.CutPrefix(r.In.URL.Path, "/repo.git")
			r.Out.URL.Path = "/" + g.User + "/" + name + ".git" + rest
			r.Out.SetBasicAuth(g.User, g.Password)
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Set-Cookie")
			return nil
		},
	}
}
