package story

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fsck"
)

func (s *Story) connect(ctx context.Context) error {
	out, err := s.Platform.Connect(ctx, env.Alice, env.App)
	s.show(out)
	return err
}

func (s *Story) bind(ctx context.Context) error {
	p := s.Platform
	out, err := p.Plugin(ctx, env.Alice, p.App(), "bind", "postgresql", "servicebinding", "backup", "restore")
	s.show(out)
	if err != nil {
		return err
	}
	if s.developer, err = p.Developer(ctx, env.App, "dora"); err != nil {
		return err
	}
	if _, err := p.Kubectl(ctx, p.App(), "create", "namespace", namespace); err != nil {
		return err
	}
	return s.watch(ctx)
}

// watch begins to look at all that is waited for later.
func (s *Story) watch(ctx context.Context) error {
	claims := func(resource string) schema.GroupVersionResource {
		return platform.PostgresqlInstances.GroupVersion().WithResource(resource)
	}
	for _, one := range []struct {
		watch    **platform.Watch
		cluster  string
		resource schema.GroupVersionResource
	}{
		{&s.app, env.App, platform.PostgresqlInstances},
		{&s.control, env.Control, platform.PostgresqlInstances},
		{&s.secrets, env.App, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}},
		{&s.backups, env.App, claims("backups")},
		{&s.restores, env.App, claims("restores")},
	} {
		var err error
		// It outlives this step; it ends with the API server.
		if *one.watch, err = s.Platform.Watch(context.WithoutCancel(ctx), one.cluster, one.resource); err != nil {
			return err
		}
	}
	return nil
}

func (s *Story) order(ctx context.Context) error {
	s.show(manifest(nano))
	applied, err := s.apply(ctx, nano)
	if err != nil {
		return err
	}
	if err := s.applyText(ctx, related("ServiceBinding", "instanceRef: "+name)); err != nil {
		return err
	}
	there, err := s.control.Until(ctx, "the claim is in the control plane", planIs(nano))
	if err != nil {
		return err
	}
	s.there = there.Object.GetNamespace()
	s.say("in the control plane it is %s/%s", s.there, there.Object.GetName())
	s.measured("apply → claim in the control plane, the namespace's first", there.At.Sub(applied))
	return nil
}

func (s *Story) showCommit(ctx context.Context) error {
	url, err := s.Platform.CloneURL(ctx, env.App)
	if err != nil {
		return err
	}
	s.clone = filepath.Join(s.Platform.Dir, "clone")
	if _, err := s.Platform.Git(ctx, env.Alice, s.Platform.Dir, "clone", "--quiet", url, s.clone); err != nil {
		return err
	}
	out, err := s.git(ctx, "log", "-1", "--stat", "--patch", "--format=commit %h%nAuthor:    %an <%ae>%nCommitter: %cn%n%n%B", "--", file)
	if err != nil {
		return err
	}
	s.show(out)
	author, err := s.git(ctx, "log", "-1", "--format=%an", "--", file)
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(author); got != "dora" {
		return fmt.Errorf("the commit's author is %q, not dora", got)
	}
	return nil
}

func (s *Story) becomesReady(ctx context.Context) error {
	return s.statusTravels(ctx, nano, time.Time{})
}

// statusTravels waits until the claim with this plan is ready on the control
// plane, at or after a time, and then in the app cluster, and measures the way.
func (s *Story) statusTravels(ctx context.Context, plan string, since time.Time) error {
	ready := func(fields ...string) func(platform.Event) bool {
		return func(e platform.Event) bool {
			return !e.At.Before(since) && planIs(plan)(e) && platform.Condition(e.Object, "Ready", fields...) == "True"
		}
	}
	there, err := s.control.Until(ctx, "the claim is ready in the control plane", ready("status", "conditions"))
	if err != nil {
		return err
	}
	s.say("ready in the control plane")
	here, err := s.app.Until(ctx, "the claim is ready in the app cluster", func(e platform.Event) bool {
		conditions := []string{"status", "gitbind", "conditions"}
		return ready(conditions...)(e) && platform.Condition(e.Object, "Applied", conditions...) == "True"
	})
	if err != nil {
		return err
	}
	if since.IsZero() {
		s.measured("status in the control plane → status in the app cluster", here.At.Sub(there.At))
	}
	out, err := s.Platform.Kubectl(ctx, s.developer, "get", "postgresqlinstances", "-n", namespace)
	s.show(out)
	return err
}

func (s *Story) changeByKubectl(ctx context.Context) error {
	applied, err := s.apply(ctx, small)
	if err != nil {
		return err
	}
	there, err := s.control.Until(ctx, "the control plane has the new plan", planIs(small))
	if err != nil {
		return err
	}
	s.measured("apply → claim changed in the control plane", there.At.Sub(applied))
	if err := s.statusTravels(ctx, small, applied); err != nil {
		return err
	}
	if err := s.answers(ctx, "SHOW shared_buffers", "512MB"); err != nil {
		return err
	}
	s.measured("apply → PostgreSQL has the plan's memory", time.Since(applied))
	return nil
}

func (s *Story) changeByGit(ctx context.Context) error {
	if _, err := s.git(ctx, "pull", "--quiet", "--rebase"); err != nil {
		return err
	}
	for _, change := range [][2]string{{small, medium}, {"maxConnections: 120", "maxConnections: 150"}} {
		if err := s.edit(file, change[0], change[1]); err != nil {
			return err
		}
	}
	out, err := s.git(ctx, "diff", "--unified=1")
	if err != nil {
		return err
	}
	s.show(out)
	if _, err := s.git(ctx, "commit", "--quiet", "--all", "--message", "Give orders the medium plan"); err != nil {
		return err
	}
	began := time.Now()
	if err := s.push(ctx); err != nil {
		return err
	}
	there, err := s.control.Until(ctx, "the control plane has the pushed plan", planIs(medium))
	if err != nil {
		return err
	}
	here, err := s.app.Until(ctx, "the app cluster has the pushed plan", planIs(medium))
	if err != nil {
		return err
	}
	s.measured("git push begun → claim changed in the control plane", there.At.Sub(began))
	s.measured("git push begun → claim changed in the app cluster", here.At.Sub(began))
	if err := s.answers(ctx, "SHOW max_connections", "150"); err != nil {
		return err
	}
	s.measured("git push begun → PostgreSQL has the new limit", time.Since(began))
	if err := s.answers(ctx, countRows, rows); err != nil {
		return err
	}
	if err := s.standbysFollow(ctx); err != nil {
		return err
	}
	s.measured("git push begun → two standbys have the rows", time.Since(began))
	return nil
}

func (s *Story) breakFile(ctx context.Context) error {
	const broken = "bindings/postgresqlinstances.anynines.com/claims/" + namespace + "/broken.yaml"
	data := strings.Replace(manifest(nano), "name: "+name, "name: somebody-elses", 1)
	if err := os.WriteFile(filepath.Join(s.clone, broken), []byte(data), 0o600); err != nil {
		return err
	}
	if err := s.commitAndPush(ctx, "Add a claim with a wrong name"); err != nil {
		return err
	}
	out, err := s.refused(ctx, func(out string) bool { return strings.Contains(out, broken+":4") })
	if err != nil {
		return err
	}
	s.show(out)
	if err := os.Remove(filepath.Join(s.clone, broken)); err != nil {
		return err
	}
	if err := s.commitAndPush(ctx, "Remove it again"); err != nil {
		return err
	}
	_, err = s.refused(ctx, func(out string) bool { return !strings.Contains(out, broken) })
	return err
}

// refused asks `kubectl gitbind get` until its answer is as wanted.
func (s *Story) refused(ctx context.Context, wanted func(string) bool) (string, error) {
	for {
		out, err := s.Platform.Plugin(ctx, env.Alice, s.Platform.App(), "get")
		if err == nil && wanted(out) {
			return out, nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("kubectl gitbind get: %w; it printed\n%s", context.Cause(ctx), out)
		}
	}
}

func (s *Story) delete(ctx context.Context) error {
	last, err := s.credentials(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	// The backup stays: it is what is left of the database.
	if _, err := s.Platform.Kubectl(ctx, s.developer, "delete", "postgresqlinstance/"+name, "servicebinding/"+name, "-n", namespace, "--wait=false"); err != nil {
		return err
	}
	deleted := func(name string) func(platform.Event) bool {
		return func(e platform.Event) bool {
			return e.At.After(began) && e.Type == watch.Deleted && e.Object.GetName() == name
		}
	}
	there, err := s.control.Until(ctx, "the claim is gone in the control plane", deleted(name))
	if err != nil {
		return err
	}
	if out, err := s.psql(ctx, last, "SELECT 1"); err == nil {
		return fmt.Errorf("PostgreSQL answers %s after its claim has gone", out)
	}
	here, err := s.app.Until(ctx, "the claim is gone in the app cluster", deleted(name))
	if err != nil {
		return err
	}
	if here.At.Before(there.At) {
		return fmt.Errorf("the claim was gone in the app cluster %s before the service was", there.At.Sub(here.At))
	}
	s.measured("delete → gone in the control plane", there.At.Sub(began))
	s.measured("gone there → gone in the app cluster", here.At.Sub(there.At))
	secret, err := s.secrets.Until(ctx, "the Secret is gone", deleted(secretName))
	if err != nil {
		return err
	}
	s.measured("delete → its Secret is gone", secret.At.Sub(began))
	if _, err := s.git(ctx, "pull", "--quiet", "--rebase"); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.clone, file)); !os.IsNotExist(err) {
		return fmt.Errorf("%s is still on main (%w)", file, err)
	}
	out, err := s.git(ctx, "show", "origin/status:"+file)
	s.show("its tombstone on the branch status:\n" + out)
	return err
}

func (s *Story) inspect(ctx context.Context) error {
	p := s.Platform
	for _, branch := range []string{"main", "status"} {
		out, err := s.git(ctx, "log", "--format=%h  %<(18,trunc)%an  %s", "origin/"+branch)
		if err != nil {
			return err
		}
		s.show(branch + ":\n" + out)
	}
	id, err := p.ClusterID(ctx, env.App)
	if err != nil {
		return err
	}
	bare := filepath.Join(p.GitDir, id+".git")
	if err := fsck.Check(ctx, bare, "--full", "--strict"); err != nil {
		return err
	}
	again := filepath.Join(p.Dir, "clone-again")
	url, err := p.CloneURL(ctx, env.App)
	if err != nil {
		return err
	}
	if _, err := p.Git(ctx, env.Alice, p.Dir, "clone", "--quiet", url, again); err != nil {
		return err
	}
	if _, err := p.Git(ctx, env.Alice, again, "fsck", "--full", "--strict"); err != nil {
		return err
	}
	s.say("git fsck and a fresh clone are clean")
	return s.findNoPassword(ctx)
}

func (s *Story) git(ctx context.Context, args ...string) (string, error) {
	return s.Platform.Git(ctx, env.Alice, s.clone, args...)
}

func (s *Story) commitAndPush(ctx context.Context, message string) error {
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", message}} {
		if _, err := s.git(ctx, args...); err != nil {
			return err
		}
	}
	return s.push(ctx)
}

// push pushes what was committed, on top of what the konnector has pushed meanwhile.
func (s *Story) push(ctx context.Context) error {
	for {
		_, err := s.git(ctx, "push", "--quiet")
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "rejected]") {
			return err
		}
		if _, err := s.git(ctx, "pull", "--quiet", "--rebase"); err != nil {
			return err
		}
	}
}

// edit replaces a text in a file of the clone.
func (s *Story) edit(path, old, new string) error {
	path = filepath.Join(s.clone, path)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(data), old, new, 1)
	if changed == string(data) {
		return fmt.Errorf("%s does not say %q", path, old)
	}
	return os.WriteFile(path, []byte(changed), 0o600)
}
