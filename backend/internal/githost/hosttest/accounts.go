package hosttest

import (
	"context"
	"slices"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost"
)

const konnector, bridge = "konnector", "bridge"

func surroundings(t *testing.T, w World) {
	h, id := w.Start(), cluster()
	if ok, err := h.Exists(t.Context(), id); ok || err != nil {
		t.Fatalf("before it is made: %t, %v", ok, err)
	}
	for range 2 {
		if err := h.Create(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { w.Delete(t, id) })
	if err := h.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if ok, err := h.Exists(t.Context(), id); !ok || err != nil {
		t.Errorf("after it was made: %t, %v", ok, err)
	}
	url, user, password, err := h.Remote(t.Context(), id)
	if err != nil || url != h.URL(id) {
		t.Errorf("copies are fetched from %s: %v", url, err)
	}
	c := w.clone(t, h, id)
	c.fetch(githost.Credential{Username: user, Password: password})
	if n := c.git("rev-list", "--count", "FETCH_HEAD"); n != "1" {
		t.Errorf("main has %s commits", n)
	}
	n := w.Surroundings(t, id)
	if n < 3 {
		t.Errorf("it has %d rules and webhooks", n)
	}
	if err := w.Start().Create(t.Context(), id); err != nil || w.Surroundings(t, id) != n {
		t.Errorf("after another start it has %d, and not %d: %v", w.Surroundings(t, id), n, err)
	}
	w.Loosen(t, id)
	if left := w.Surroundings(t, id); left != 0 {
		t.Fatalf("people left %d", left)
	}
	if err := w.Start().Create(t.Context(), id); err != nil || w.Surroundings(t, id) != n {
		t.Errorf("of what people removed it has %d, and not %d: %v", w.Surroundings(t, id), n, err)
	}
	if err := h.Create(t.Context(), "../etc"); err == nil {
		t.Error("a name that is no id was taken")
	}
}

func rights(t *testing.T, w World) {
	h, id := w.made(t)
	_, other := w.made(t)
	k, b := issue(t, h, id, konnector, "k"), issue(t, h, id, bridge, "b")
	c, another := w.clone(t, h, id), w.clone(t, h, other)
	first := c.git("rev-parse", "HEAD")
	c.commit("second")
	another.commit("theirs")
	for _, step := range []struct {
		what    string
		by      githost.Credential
		in      *clone
		refspec string
		ok      bool
	}{
		{"a person pushes to main", w.person(), c, "HEAD:refs/heads/main", false},
		{"the bridge pushes to main", b, c, "HEAD:refs/heads/main", false},
		{"the konnector pushes to main", k, c, "HEAD:refs/heads/main", true},
		{"the konnector rewrites main", k, c, "+" + first + ":refs/heads/main", false},
		{"the konnector deletes main", k, c, ":refs/heads/main", false},
		{"the konnector proposes", k, c, "HEAD:refs/heads/changes/a/b/c", true},
		{"a person pushes a branch", w.person(), c, "HEAD:refs/heads/larger", true},
		{"a person makes status", w.person(), c, "HEAD:refs/heads/status", false},
		{"the konnector makes status", k, c, "HEAD:refs/heads/status", false},
		{"the bridge makes status", b, c, "HEAD:refs/heads/status", true},
		{"the bridge cuts status", b, c, "+" + first + ":refs/heads/status", true},
		{"a person pushes to status", w.person(), c, "HEAD:refs/heads/status", false},
		{"the konnector pushes to status", k, c, "HEAD:refs/heads/status", false},
		{"the konnector pushes to another cluster's main", k, another, "HEAD:refs/heads/main", false},
		{"the konnector pushes to another cluster's branch", k, another, "HEAD:refs/heads/changes/a/b/c", false},
		{"the bridge makes another cluster's status", b, another, "HEAD:refs/heads/status", false},
	} {
		want := step.ok || slices.Contains(w.Taken, step.what)
		if out, ok := step.in.pushes(step.by, step.refspec); ok != want {
			t.Errorf("%s: taken %t, want %t\n%s", step.what, ok, want, out)
		}
	}
	for _, agent := range []githost.Credential{k, b} {
		if out, err := another.try("ls-remote", as(another.url, agent)); err == nil {
			t.Errorf("%s reads another cluster's repository: %s", agent.Username, out)
		}
	}
}

func endings(t *testing.T, w World) {
	h, id := w.made(t)
	c := w.clone(t, h, id)
	opens := func(what string, by githost.Credential, want bool) {
		t.Helper()
		if out, err := c.try("ls-remote", as(c.url, by)); (err == nil) != want {
			t.Errorf("%s opens it: %t, want %t\n%s", what, err == nil, want, out)
		}
	}
	first, second, b := issue(t, h, id, konnector, "first"), issue(t, h, id, konnector, "second"), issue(t, h, id, bridge, "b")
	for what, by := range map[string]githost.Credential{"the first": first, "the second": second, "the bridge's": b} {
		opens(what, by, true)
	}
	third, made := githost.Credential{}, make(chan error, 1)
	if err := h.Retain(t.Context(), id, konnector, func(context.Context) ([]string, error) {
		// While it is asked which count; by a host that does one thing at a time for an
		// agent right after.
		go func() {
			var err error
			third, err = h.Issue(t.Context(), id, konnector, "third")
			made <- err
		}()
		select {
		case err := <-made:
			made <- err
		case <-time.After(time.Second):
		}
		return []string{"second"}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	opens("the first", first, false)
	opens("the second", second, true)
	opens("what was issued meanwhile", third, true)
	opens("the bridge's", b, true)
	none := func(context.Context) ([]string, error) { return nil, nil }
	if err := h.Retain(t.Context(), id, konnector, none); err != nil {
		t.Fatal(err)
	}
	opens("the second", second, false)
	opens("the third", third, false)
	opens("the bridge's", b, true)
	if err := h.Retain(t.Context(), cluster(), bridge, none); err != nil {
		t.Errorf("of a cluster that was never there: %v", err)
	}
}
