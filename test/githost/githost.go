// Package githost is a Git host for tests: git's own http-backend over bare
// repositories, HTTP basic authentication, and events as the backend has them.
// It can be down, and tells nobody apart but by password: what a real host
// refuses is tested with the embedded one.
package githost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
)

// Host has many repositories, each with a password of its own.
type Host struct {
	t      testing.TB
	root   string
	git    http.Handler
	Server *httptest.Server
	// Requests is how many there were, also while it is down.
	Requests atomic.Int64

	mu        sync.Mutex
	down      bool
	before    func(*http.Request) // may be nil
	passwords map[string]string   // by repository
	api       http.Handler        // may be nil
	listeners map[chan Moved]string
}

// Moved is one event: where a branch is now.
type Moved struct {
	Ref  string `json:"ref"`
	Hash string `json:"hash"`
}

// New serves until the test ends.
func New(t testing.TB) *Host {
	t.Helper()
	h := &Host{t: t, root: t.TempDir(), passwords: map[string]string{}, listeners: map[chan Moved]string{}}
	h.git = Backend(t, h.root, "/git")
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(func() {
		h.Server.CloseClientConnections()
		h.Server.Close()
	})
	return h
}

// Backend is git's own program for hosts, over the repositories below root. It
// asks nobody who they are.
func Backend(t testing.TB, root, prefix string) http.Handler {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Root:   prefix,
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test"},
		Stderr: t.Output(),
	}
}

// Command is the stock program in a folder, "" for none, as a person whom
// nobody else's configuration concerns.
func Command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=alice", "GIT_AUTHOR_EMAIL=alice@example.org", "GIT_COMMITTER_NAME=alice", "GIT_COMMITTER_EMAIL=alice@example.org")
	return cmd
}

// Create makes an empty repository, as the backend does.
func (h *Host) Create(repository, password string) {
	h.t.Helper()
	if out, err := Command("", "init", "-q", "--bare", "--initial-branch=main", h.Dir(repository)).CombinedOutput(); err != nil {
		h.t.Fatalf("git init: %v: %s", err, out)
	}
	config, err := os.OpenFile(filepath.Join(h.Dir(repository), "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = config.WriteString("[http]\nreceivepack = true\n[uploadpack]\nallowAnySHA1InWant = true\nallowFilter = true\n[receive]\nautogc = false\n")
		err = errors.Join(err, config.Close())
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.SetPassword(repository, password)
}

// Dir is the bare repository.
func (h *Host) Dir(repository string) string { return filepath.Join(h.root, repository+".git") }

// URL is where it is cloned from.
func (h *Host) URL(repository string) string { return h.Server.URL + "/git/" + repository + ".git" }

// Command is git in a repository.
func (h *Host) Command(repository string, args ...string) *exec.Cmd {
	return Command(h.Dir(repository), args...)
}

// Run runs git in a repository, and gives what it prints.
func (h *Host) Run(repository string, args ...string) string {
	h.t.Helper()
	out, err := h.Command(repository, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// SetPassword changes what a repository is opened with.
func (h *Host) SetPassword(repository, password string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passwords[repository] = password
}

// SetDown lets every request fail, and ends the ones under way.
func (h *Host) SetDown(down bool) {
	h.mu.Lock()
	h.down = down
	h.mu.Unlock()
	if down {
		h.Server.CloseClientConnections()
	}
}

// SetBefore lets something happen before each request for Git that is served;
// nil ends that.
func (h *Host) SetBefore(before func(*http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = before
}

// SetAPI lets a handler answer what is asked of the backend, below /v1, but for events.
func (h *Host) SetAPI(api http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.api = api
}

func (h *Host) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/heartbeat") {
		// As a backend that is older than heartbeats.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(restapi.Error{Message: "there is nothing at " + r.URL.Path})
		return
	}
	h.Requests.Add(1)
	repository := r.URL.Query().Get("cluster")
	if rest, ok := strings.CutPrefix(r.URL.Path, "/git/"); ok {
		repository, _, _ = strings.Cut(rest, ".git/")
	} else if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/clusters/"); ok {
		repository, _, _ = strings.Cut(rest, "/")
	}
	h.mu.Lock()
	down, before, api, want := h.down, h.before, h.api, h.passwords[repository]
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
	case api != nil && strings.HasPrefix(r.URL.Path, "/v1/"):
		api.ServeHTTP(w, r)
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
		h.Tell(repository)
	}
}

// Heads are the branches as they are, by name. Tests poll them: to read the files
// costs a hundredth of a git process.
func (h *Host) Heads(repository string) []Moved {
	h.t.Helper()
	heads := map[string]string{}
	// As git does, loose files first: a ref may be packed meanwhile.
	dir := os.DirFS(h.Dir(repository))
	err := fs.WalkDir(dir, "refs/heads", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(name, ".lock") {
			var hash []byte
			hash, err = fs.ReadFile(dir, name)
			if err == nil {
				heads[name] = strings.TrimSpace(string(hash))
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	lines, err := fs.ReadFile(dir, "packed-refs")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if heads[name] == "" && strings.HasPrefix(name, "refs/heads/") {
			heads[name] = hash
		}
	}
	all := make([]Moved, 0, len(heads))
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		all = append(all, Moved{name, heads[name]})
	}
	return all
}

// Head is where a branch is, "" if there is none.
func (h *Host) Head(repository, branch string) string {
	for _, m := range h.Heads(repository) {
		if m.Ref == "refs/heads/"+branch {
			return m.Hash
		}
	}
	return ""
}

// Listen gives the events of a repository from now on.
func (h *Host) Listen(repository string) (events <-chan Moved, end func()) {
	c := make(chan Moved, 1000)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[c] = repository
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.listeners, c)
	}
}

// Tell says where the branches are, as after a push.
func (h *Host) Tell(repository string) {
	heads := h.Heads(repository)
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

func (h *Host) events(w http.ResponseWriter, r *http.Request, repository string) {
	events, end := h.Listen(repository)
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(m Moved) {
		data, _ := json.Marshal(m)
		_, _ = fmt.Fprintf(w, "event: ref\ndata: %s\n\n", data)
		w.(http.Flusher).Flush()
	}
	for _, m := range h.Heads(repository) {
		send(m)
	}
	for {
		select {
		case m := <-events:
			send(m)
		case <-r.Context().Done():
			return
		}
	}
}

// Explode keeps each object of a repository in a file of its own.
func (h *Host) Explode(repository string) {
	h.t.Helper()
	packs, err := filepath.Glob(filepath.Join(h.Dir(repository), "objects/pack/*.pack"))
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
		cmd := h.Command(repository, "unpack-objects", "-q")
		cmd.Stdin = bytes.NewReader(data)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("unpack: %v: %s", err, out)
		}
	}
}

// Loose is the file of an object.
func (h *Host) Loose(repository, id string) string {
	return filepath.Join(h.Dir(repository), "objects", id[:2], id[2:])
}
