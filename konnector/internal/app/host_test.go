package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
)

// host is a Git host: git's own http-backend, HTTP basic authentication, and
// events as the backend has them.
type host struct {
	t      testing.TB
	dir    string
	server *httptest.Server
	git    http.Handler
	// requests is how many there were, also while it is down.
	requests atomic.Int64

	mu       sync.Mutex
	down     bool
	password string
	moved    map[chan event]struct{}
}

type event struct {
	Ref  string `json:"ref"`
	Hash string `json:"hash"`
}

const user, password = "konnector", "gbk_secret"

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{t: t, dir: filepath.Join(t.TempDir(), "git", "repo.git"), password: password, moved: map[chan event]struct{}{}}
	h.run("init", "-q", "--bare", "--initial-branch=main", h.dir)
	h.run("-C", h.dir, "config", "http.receivepack", "true")
	h.run("-C", h.dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	h.run("-C", h.dir, "config", "uploadpack.allowFilter", "true")
	h.run("-C", h.dir, "config", "receive.autogc", "false")
	h.git = &cgi.Handler{
		Path:   filepath.Join(h.run("--exec-path"), "git-http-backend"),
		Root:   "/git",
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Dir(h.dir), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test"},
		Stderr: t.Output(),
	}
	h.server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(func() {
		h.server.CloseClientConnections()
		h.server.Close()
	})
	return h
}

func (h *host) url() string { return h.server.URL + "/git/repo.git" }

// run runs git.
func (h *host) run(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
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

func (h *host) setPassword(p string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.password = p
}

func (h *host) serve(w http.ResponseWriter, r *http.Request) {
	h.requests.Add(1)
	h.mu.Lock()
	down, want := h.down, h.password
	h.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	if _, got, _ := r.BasicAuth(); got != want {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/v1/events" {
		h.events(w, r)
		return
	}
	answer := httptest.NewRecorder()
	h.git.ServeHTTP(answer, r)
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	pushed := strings.HasSuffix(r.URL.Path, "/git-receive-pack") && bytes.Contains(answer.Body.Bytes(), []byte("ok refs/"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	if pushed {
		h.tell()
	}
}

// heads are the branches as they are.
func (h *host) heads() []event {
	var all []event
	for line := range strings.Lines(h.run("-C", h.dir, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")) {
		ref, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, event{ref, hash})
	}
	return all
}

func (h *host) tell() {
	heads := h.heads()
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.moved {
		for _, e := range heads {
			select {
			case c <- e:
			default:
			}
		}
	}
}

func (h *host) events(w http.ResponseWriter, r *http.Request) {
	c := make(chan event, 100)
	h.mu.Lock()
	h.moved[c] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.moved, c)
		h.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(e event) {
		data, _ := json.Marshal(e)
		_, _ = fmt.Fprintf(w, "event: ref\ndata: %s\n\n", data)
		w.(http.Flusher).Flush()
	}
	for _, e := range h.heads() {
		send(e)
	}
	for {
		select {
		case e := <-c:
			send(e)
		case <-r.Context().Done():
			return
		}
	}
}

// open is another client of the repository.
func (h *host) open(name, email string) *gitstore.Repository {
	h.t.Helper()
	r, err := gitstore.Open(gitstore.Options{
		URL: h.url(), Committer: store.Signature{Name: name, Email: email},
		Credentials: gitstoreCredentials,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}
