package hosttest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/embedded"
)

// moved moves a repository of the embedded host there, as the backend does.
func moved(t *testing.T, w World) {
	h, id, dir := w.Start(), cluster(), t.TempDir()
	before, err := embedded.New(t.Context(), embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	here := &clone{t: t, dir: filepath.Join(dir, id+".git")}
	for _, branch := range []string{"status", "changes/a/b/c", "conflicts/a/b/c"} {
		here.git("branch", branch, "main")
	}
	main := here.git("rev-parse", "main")

	t.Cleanup(func() { w.Delete(t, id) })
	for range 2 {
		if err := h.CreateEmpty(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	after, err := embedded.New(t.Context(), embedded.Config{Dir: dir, Upstream: h})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := after.Push(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c := w.clone(t, h, id)
	all := c.git("ls-remote", "--heads", as(c.url, w.person()))
	if n := strings.Count(all, main); n != 4 || strings.Count(all, "refs/") != 4 {
		t.Errorf("main here is %s, and there are\n%s", main, all)
	}
	if n := w.Surroundings(t, id); n < 3 {
		t.Errorf("it has %d rules and webhooks", n)
	}
	c.commit("next")
	if out, ok := c.pushes(issue(t, h, id, konnector, "k"), "HEAD:refs/heads/main"); !ok {
		t.Errorf("the konnector pushes to main: %s", out)
	}
	if out, ok := c.pushes(w.person(), "+HEAD~1:refs/heads/main"); ok {
		t.Errorf("a person sets main back: %s", out)
	}
	if _, err := after.Push(t.Context(), id); err != nil {
		t.Errorf("once more, when it has gone on there: %v", err)
	}
	// It was taken back, and goes on here: the rules there may let the konnector alone push to main.
	next := c.git("rev-parse", "HEAD")
	later := here.git("commit-tree", "-m", "Later", "-p", next, next+"^{tree}")
	here.git("update-ref", "refs/heads/main", later)
	_, err = after.Push(t.Context(), id)
	taken := strings.HasPrefix(c.git("ls-remote", as(c.url, w.person()), "refs/heads/main"), later)
	var refused *githost.MoveRefusedError
	if taken != (err == nil) || !taken && (!errors.As(err, &refused) || !strings.Contains(refused.Words, "refs/heads/main")) {
		t.Errorf("once more, when it has gone on here: taken: %t, %v", taken, err)
	}

	// A repository that is there already stays as it is.
	_, other := w.made(t)
	if err := before.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	o := &clone{t: t, dir: filepath.Join(dir, other+".git")}
	o.git("update-ref", "refs/heads/main", o.git("commit-tree", "-m", "Of another one", o.git("hash-object", "-t", "tree", "-w", "/dev/null")))
	if _, err := after.Push(t.Context(), other); !errors.Is(err, githost.ErrOtherHistory) {
		t.Errorf("in the place of another one: %v", err)
	}
}
