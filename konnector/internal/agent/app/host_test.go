package app_test

import (
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/test/fsck"
	"gitbind.dev/test/githost"
)

const user, password = "konnector", "gbk_secret"

// host is a Git host with the one repository of a world. Its Connection asks
// for events of clusterID.
type host struct {
	*githost.Host
	t   testing.TB
	dir string
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{Host: githost.New(t), t: t}
	h.dir = h.Dir(clusterID)
	h.Create(clusterID, password)
	return h
}

func (h *host) url() string { return h.URL(clusterID) }

// check runs git fsck in the repository.
func (h *host) check() {
	h.t.Helper()
	if err := fsck.Check(h.t.Context(), h.dir, "--strict"); err != nil {
		h.t.Error(err)
	}
}

// run runs git in the repository.
func (h *host) run(args ...string) string { h.t.Helper(); return h.Run(clusterID, args...) }

func (h *host) setPassword(p string) { h.SetPassword(clusterID, p) }

func (h *host) setDown(down bool) { h.SetDown(down) }

func (h *host) tell() { h.t.Helper(); h.Tell(clusterID) }

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
