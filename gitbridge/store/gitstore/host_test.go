package gitstore_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/test/githost"
)

var committer = store.Signature{Name: "committer", Email: "committer@example.org"}

// host is a bare repository behind git http-backend, with faults.
type host struct {
	t      testing.TB
	dir    string
	server *httptest.Server
	// backend is git's own program, or Gitea.
	backend http.Handler
	// hook is the file that is run before a push is taken.
	hook string
	// url is the repository's. Each host has one of its own even where it has an
	// earlier one's port: what this process knows of a remote, it knows by URL.
	url string

	lose, breaks, pushes atomic.Int64
	requests             atomic.Int64
	connections          atomic.Int64
	then                 atomic.Pointer[func()]

	mu sync.Mutex
	// password, if not "", is asked for.
	password string
	// intercept, if not nil, may answer a request itself.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// wrap, if not nil, sees the answers.
	wrap func(http.ResponseWriter) http.ResponseWriter
}

// clients counts those who know of a host by a URL of their own.
var clients atomic.Int64

func newHost(t testing.TB) *host {
	h := &host{t: t}
	if gitea != nil {
		h.useGitea(gitea)
	} else {
		h.useStock()
	}
	h.git("config", "gc.auto", "0")
	h.git("config", "receive.autogc", "false")
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			h.connections.Add(1)
		}
	}
	h.server.Start()
	h.url = h.newURL()
	t.Cleanup(h.server.Close)
	return h
}

// newURL is one that nobody in this process has used.
func (h *host) newURL() string {
	return fmt.Sprintf("%s/client-%d/repo.git", h.server.URL, clients.Add(1))
}

// useStock is git's own program for hosts.
func (h *host) useStock() {
	h.dir = filepath.Join(h.t.TempDir(), "repo.git")
	h.git("init", "-q", "--bare", "--initial-branch=main", h.dir)
	h.git("config", "http.receivepack", "true")
	h.git("config", "uploadpack.allowFilter", "true")
	h.hook = filepath.Join(h.dir, "hooks", "pre-receive")
	h.backend = githost.Backend(h.t, filepath.Dir(h.dir), "")
}

func (h *host) serve(w http.ResponseWriter, r *http.Request) {
	h.requests.Add(1)
	_, path, _ := strings.Cut(r.URL.Path[1:], "/")
	r.URL.Path = "/" + path
	if h.breaks.Add(-1) >= 0 {
		panic(http.ErrAbortHandler)
	}
	h.mu.Lock()
	password, intercept, wrap := h.password, h.intercept, h.wrap
	h.mu.Unlock()
	if wrap != nil {
		w = wrap(w)
	}
	if _, got, _ := r.BasicAuth(); got != password {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if intercept != nil && intercept(w, r) {
		return
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
		h.backend.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	h.backend.ServeHTTP(answer, r)
	if bytes.Contains(answer.Body.Bytes(), []byte("ok refs/")) {
		h.pushes.Add(1)
		if h.lose.Add(-1) >= 0 {
			if then := h.then.Load(); *then != nil {
				(*then)()
			}
			panic(http.ErrAbortHandler)
		}
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (h *host) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *host) open(o gitstore.Options) *gitstore.Repository {
	h.t.Helper()
	if o.URL == "" {
		o.URL = h.url
	}
	o.Committer = committer
	r, err := gitstore.Open(o)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// Branch is one of a process of its own: those who open the same URL know of
// each other.
func (h *host) Branch(name string) store.Branch {
	return h.open(gitstore.Options{URL: h.newURL()}).Branch(name)
}

func (h *host) LoseAnswers(n int, then func()) {
	h.then.Store(&then)
	h.lose.Store(int64(n))
}

func (h *host) Break(n int) { h.breaks.Store(int64(n)) }
func (h *host) Pushes() int { return int(h.pushes.Load()) }

func (h *host) Reject(path, words string) {
	if path == "" {
		if err := os.Remove(h.hook); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	script := fmt.Sprintf(`#!/bin/sh
while read old new ref; do
	if git cat-file -e $new:%s 2>/dev/null; then
		echo "%s" >&2
		exit 1
	fi
done
`, path, words)
	if err := os.WriteFile(h.hook, []byte(script), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) Force(branch string, to store.Hash) {
	if to == "" {
		h.git("update-ref", "-d", "refs/heads/"+branch)
		return
	}
	h.git("update-ref", "refs/heads/"+branch, string(to))
}

// Collect packs everything and writes bitmaps, as git gc does in a bare
// repository.
func (h *host) Collect() {
	h.git("gc", "-q", "--prune=now")
	if bitmaps, _ := filepath.Glob(filepath.Join(h.dir, "objects", "pack", "*.bitmap")); len(bitmaps) == 0 {
		h.t.Error("the remote has no bitmaps")
	}
}

func (h *host) History(branch string) (commits []store.Commit) {
	h.t.Helper()
	out := h.git("log", "--format=%H%x00%an%x00%ae%x00%cn%x00%ce%x00%ct%x00%B%x00", "--topo-order", branch)
	fields := strings.Split(out, "\x00")
	for len(fields) >= 7 {
		var seconds int64
		if _, err := fmt.Sscan(fields[5], &seconds); err != nil {
			h.t.Fatal(err)
		}
		commits = append(commits, store.Commit{
			Hash:      store.Hash(strings.TrimSpace(fields[0])),
			Author:    store.Signature{Name: fields[1], Email: fields[2]},
			Committer: store.Signature{Name: fields[3], Email: fields[4]},
			Time:      time.Unix(seconds, 0),
			Message:   fields[6],
		})
		fields = fields[7:]
	}
	return commits
}

// git runs the stock program in the repository.
func (h *host) git(args ...string) string {
	h.t.Helper()
	return h.gitIn(h.dir, args...)
}

func (h *host) gitIn(dir string, args ...string) string {
	h.t.Helper()
	cmd := h.gitCommand(dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func (h *host) gitCommand(dir string, args ...string) *exec.Cmd {
	if _, err := os.Stat(dir); err != nil {
		dir = "" // it is about to be made
	}
	return githost.Command(dir, args...)
}

// check is what the stock program says of the repository in the end.
func (h *host) check() {
	h.t.Helper()
	if out := h.git("fsck", "--strict", "--full", "--no-dangling"); strings.TrimSpace(out) != "" {
		h.t.Errorf("git fsck: %s", out)
	}
	if strings.TrimSpace(h.git("for-each-ref")) == "" {
		return
	}
	clone := filepath.Join(h.t.TempDir(), "clone")
	h.git("clone", "-q", "--no-checkout", h.url, clone)
	h.gitIn(clone, "fsck", "--strict")
}
