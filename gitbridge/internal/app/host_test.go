package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
)

// host is a Git host with many repositories: git's own http-backend, HTTP basic
// authentication, and events as the backend has them.
type host struct {
	t      testing.TB
	root   string
	server *httptest.Server
	git    http.Handler

	mu        sync.Mutex
	down      bool
	before    func(*http.Request) // may be nil
	passwords map[string]string   // by repository
	listeners map[chan moved]string
}

type moved struct {
	Ref  string `json:"ref"`
	Hash string `json:"hash"`
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{t: t, root: t.TempDir(), passwords: map[string]string{}, listeners: map[chan moved]string{}}
	h.git = &cgi.Handler{
		Path:   filepath.Join(h.run("", "--exec-path"), "git-http-backend"),
		Root:   "/git",
		Env:    []string{"GIT_PROJECT_ROOT=" + h.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test"},
		Stderr: t.Output(),
	}
	h.server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(func() {
		h.server.CloseClientConnections()
		h.server.Close()
	})
	return h
}

// run runs git on a repository.
func (h *host) run(repository string, args ...string) string {
	h.t.Helper()
	out, err := h.command(repository, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *host) command(repository string, args ...string) *exec.Cmd {
	if repository != "" {
		args = append([]string{"-C", h.dir(repository)}, args...)
	}
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=alice", "GIT_AUTHOR_EMAIL=alice@example.org", "GIT_COMMITTER_NAME=alice", "GIT_COMMITTER_EMAIL=alice@example.org")
	return cmd
}

func (h *host) dir(repository string) string { return filepath.Join(h.root, repository+".git") }

func (h *host) url(repository string) string { return h.server.URL + "/git/" + repository + ".git" }

// create makes a repository with one commit, as the backend does.
func (h *host) create(repository, password string) {
	h.t.Helper()
	h.run("", "init", "-q", "--bare", "--initial-branch=main", h.dir(repository))
	for key, value := range map[string]string{"http.receivepack": "true", "uploadpack.allowAnySHA1InWant": "true", "uploadpack.allowFilter": "true", "receive.autogc": "false"} {
		h.run(repository, "config", key, value)
	}
	h.setPassword(repository, password)
}

func (h *host) setPassword(repository, password string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passwords[repository] = password
}

// setDown lets every request fail, and ends the ones under way.
func (h *host) setDown(down bool) {
	h.mu.Lock()
	h.down = down
	h.mu.Unlock()
	if down {
		h.server.CloseClientConnections()
	}
}

// setBefore lets something happen before each request that is served.
func (h *host) setBefore(before func(*http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = before
}

func (h *host) serve(w http.ResponseWriter, r *http.Request) {
	repository := r.URL.Query().Get("cluster")
	if rest, ok := strings.CutPrefix(r.URL.Path, "/git/"); ok {
		repository, _, _ = strings.Cut(rest, ".git/")
	}
	h.mu.Lock()
	down, before, want := h.down, h.before, h.passwords[repository]
	h.mu.Unlock()
	_, got, _ := r.BasicAuth()
	switch {
	case down:
		panic(http.ErrAbortHandler)
	case want == "" || got != want:
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	case r.URL.Path == "/v1/events":
		h.events(w, r, repository)
		return
	}
	if before != nil {
		before(r)
	}
	answer := httptest.NewRecorder()
	h.git.ServeHTTP(answer, r)
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	if strings.HasSuffix(r.URL.Path, "/git-receive-pack") && bytes.Contains(answer.Body.Bytes(), []byte("ok refs/")) {
		h.tell(repository)
	}
}

// explode keeps each object in a file of its own.
func (h *host) explode(repository string) {
	h.t.Helper()
	packs, err := filepath.Glob(filepath.Join(h.dir(repository), "objects/pack/*.pack"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, pack := range packs {
		data, err := os.ReadFile(pack)
		if err == nil {
			err = errors.Join(os.Remove(pack), os.Remove(strings.TrimSuffix(pack, ".pack")+".idx"))
		}
		if err != nil {
			h.t.Fatal(err)
		}
		cmd := h.command(repository, "unpack-objects", "-q")
		cmd.Stdin = bytes.NewReader(data)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("unpack: %v: %s", err, out)
		}
	}
}

// loose is the file of an object.
func (h *host) loose(repository, id string) string {
	return filepath.Join(h.dir(repository), "objects", id[:2], id[2:])
}

// heads are the branches as they are.
func (h *host) heads(repository string) []moved {
	var all []moved
	for line := range strings.Lines(h.run(repository, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")) {
		ref, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, moved{ref, hash})
	}
	return all
}

// head is where a branch is.
func (h *host) head(repository, branch string) string {
	for _, m := range h.heads(repository) {
		if m.Ref == "refs/heads/"+branch {
			return m.Hash
		}
	}
	return ""
}

// tell says where the branches are.
func (h *host) tell(repository string) {
	heads := h.heads(repository)
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, of := range h.listeners {
		if of != repository {
			continue
		}
		for _, m := range heads {
			select {
			case c <- m:
			default:
			}
		}
	}
}

func (h *host) events(w http.ResponseWriter, r *http.Request, repository string) {
	c := make(chan moved, 1000)
	h.mu.Lock()
	h.listeners[c] = repository
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.listeners, c)
		h.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(m moved) {
		data, _ := json.Marshal(m)
		_, _ = fmt.Fprintf(w, "event: ref\ndata: %s\n\n", data)
		w.(http.Flusher).Flush()
	}
	for _, m := range h.heads(repository) {
		send(m)
	}
	for {
		select {
		case m := <-c:
			send(m)
		case <-r.Context().Done():
			return
		}
	}
}

// open is a client of a repository that is not the bridge.
func (h *host) open(repository, password string) *gitstore.Repository {
	h.t.Helper()
	r, err := gitstore.Open(gitstore.Options{URL: h.url(repository), Committer: alice, Credentials: credentials(password)})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

var alice = store.Signature{Name: "alice", Email: "alice@example.org"}
