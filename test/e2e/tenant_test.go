package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// tenant is a connected app cluster with PostgreSQL bound, and a clone of its
// repository.
type tenant struct {
	*platform.Platform
	cluster, user string
	id            string
	clone         string
	// app and control see every change of the tenant's claims, and of
	// everybody's on the control plane.
	app, control *platform.Watch
}

const claims = "bindings/postgresqlinstances.anynines.com/claims/"

func connect(t *testing.T, p *platform.Platform, user, cluster string) *tenant {
	t.Helper()
	c := connectOnly(t, p, user, cluster)
	c.bindPostgresql(t)
	return c
}

// bindPostgresql binds the API, and watches both sides.
func (c *tenant) bindPostgresql(t *testing.T) {
	t.Helper()
	must(t)(c.Plugin(t.Context(), c.user, c.admin(), "bind", "postgresql"))
	c.watch(t)
}

// watch begins to watch both sides, from what they are now.
func (c *tenant) watch(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var err error
	if c.app, err = c.Watch(ctx, c.cluster, platform.PostgresqlInstances); err != nil {
		t.Fatal(err)
	}
	if c.control, err = c.Watch(ctx, "control", platform.PostgresqlInstances); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T) func(string, error) string {
	t.Helper()
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func (c *tenant) admin() string { return c.Cluster(c.cluster).Kubeconfig }

// claimNamespace is where the bridge puts the claims of team-a.
func (c *tenant) claimNamespace() string { return "gb-" + c.id + "-team-a" }

func manifest(name, plan string) string {
	return fmt.Sprintf(`apiVersion: anynines.com/v1
kind: PostgresqlInstance
metadata:
  name: %s
  namespace: team-a
spec:
  service: a9s-postgresql13
  plan: %s
`, name, plan)
}

// apply applies a manifest with kubectl.
func (c *tenant) apply(t *testing.T, yaml string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claim.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t)(c.Kubectl(t.Context(), c.admin(), "apply", "-f", path))
}

// push commits what change does to the clone, and pushes it.
func (c *tenant) push(t *testing.T, message string, change func(dir string)) {
	t.Helper()
	ctx := t.Context()
	must(t)(c.Git(ctx, c.user, c.clone, "pull", "--quiet", "--rebase"))
	change(c.clone)
	must(t)(c.Git(ctx, c.user, c.clone, "add", "--all"))
	must(t)(c.Git(ctx, c.user, c.clone, "commit", "--quiet", "--message", message))
	// The konnector may be first, as often as it has something to commit.
	eventually(t, "the push is taken", func(ctx context.Context) (string, bool) {
		must(t)(c.Git(ctx, c.user, c.clone, "pull", "--quiet", "--rebase"))
		out, err := c.Git(ctx, c.user, c.clone, "push", "--quiet")
		return out, err == nil
	})
}

// propose commits what change does to the clone to a branch of its own, and pushes that.
func (c *tenant) propose(t *testing.T, branch, message string, change func(dir string)) {
	t.Helper()
	git := func(args ...string) { must(t)(c.Git(t.Context(), c.user, c.clone, args...)) }
	git("fetch", "--quiet", "--prune")
	git("checkout", "--quiet", "--detach", "origin/main")
	change(c.clone)
	git("add", "--all")
	git("commit", "--quiet", "--message", message)
	git("push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	git("checkout", "--quiet", "main")
}

func write(t *testing.T, dir, path, data string) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// patience is for a machine on which others work, too.
const patience = 2 * time.Minute

// eventually asks until the answer holds.
func eventually(t *testing.T, what string, ask func(context.Context) (answer string, ok bool)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer := ""
	if err := env.Await(patience, func() error {
		now, ok := ask(ctx)
		if ok || ctx.Err() == nil {
			answer = now // The deadline is no answer.
		}
		if !ok {
			return errors.New("not yet")
		}
		return nil
	}); err != nil {
		t.Fatalf("not within %s: %s; the last answer was\n%s", patience, what, answer)
	}
	return answer
}

// get asks `kubectl gitbind get` until it prints all of these.
func (c *tenant) get(t *testing.T, want ...string) string {
	t.Helper()
	return eventually(t, fmt.Sprintf("kubectl gitbind get prints %q", want), func(ctx context.Context) (string, bool) {
		out, err := c.Plugin(ctx, c.user, c.admin(), "get")
		for _, w := range want {
			if err != nil || !strings.Contains(out, w) {
				return out, false
			}
		}
		return out, true
	})
}

func (c *tenant) until(t *testing.T, w *platform.Watch, what string, match func(platform.Event) bool) platform.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := w.Until(ctx, what, match)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// there is the tenant's claim on the control plane, with this plan.
func (c *tenant) there(name, plan string) func(platform.Event) bool {
	return func(e platform.Event) bool {
		return e.Object.GetNamespace() == c.claimNamespace() && has(name, plan)(e)
	}
}

func has(name, plan string) func(platform.Event) bool {
	return func(e platform.Event) bool {
		return e.Object.GetName() == name && platform.Is(e.Object, plan, "spec", "plan")
	}
}
