package app_test

import (
	"net/http"
	"os/exec"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/test/fsck"
	"gitbind.dev/test/githost"
)

// host is the Git host of all tenants of a world.
type host struct {
	*githost.Host
	t testing.TB
}

// check runs git fsck in a repository.
func (h *host) check(t testing.TB, repository string, flags ...string) {
	t.Helper()
	if err := fsck.Check(t.Context(), h.Dir(repository), flags...); err != nil {
		t.Error(err)
	}
}

func newHost(t testing.TB) *host { return &host{githost.New(t), t} }

func (h *host) create(repository, password string) { h.t.Helper(); h.Create(repository, password) }

func (h *host) dir(repository string) string { return h.Dir(repository) }

func (h *host) url(repository string) string { return h.URL(repository) }

func (h *host) run(repository string, args ...string) string {
	h.t.Helper()
	return h.Run(repository, args...)
}

func (h *host) command(repository string, args ...string) *exec.Cmd {
	return h.Command(repository, args...)
}

func (h *host) setPassword(repository, password string) { h.SetPassword(repository, password) }

func (h *host) setDown(down bool) { h.SetDown(down) }

func (h *host) setBefore(before func(*http.Request)) { h.SetBefore(before) }

func (h *host) head(repository, branch string) string {
	h.t.Helper()
	return h.Head(repository, branch)
}

func (h *host) tell(repository string) { h.t.Helper(); h.Tell(repository) }

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
