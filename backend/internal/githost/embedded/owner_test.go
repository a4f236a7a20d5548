package embedded

import (
	"os"
	"strings"
	"testing"
)

func TestARepositoryKeepsWhoseItIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	is := func(h *Host, id, want string) {
		t.Helper()
		if got, err := h.Owner(t.Context(), id); err != nil || got != want {
			t.Errorf("%s is of %q, %v; want %q", id, got, err, want)
		}
	}
	is(s.Host, cluster, "")
	is(s.Host, "nosuch1", "")
	for _, owner := range []string{"a", "b", "b"} {
		if err := s.SetOwner(t.Context(), cluster, owner); err != nil {
			t.Fatal(err)
		}
		is(s.Host, cluster, owner)
	}
	is(s.Host, other, "")
	if err := s.SetOwner(t.Context(), "nosuch1", "a"); err == nil {
		t.Error("kept of no repository")
	}
	// Another process has it, too, and nothing lies about.
	next := newHost(t, Config{Dir: s.git.dir, Authenticator: passwords{}})
	is(next, cluster, "b")
	files, err := os.ReadDir(s.bare())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ownerFile) && f.Name() != ownerFile {
			t.Errorf("there is %s", f.Name())
		}
	}
}
