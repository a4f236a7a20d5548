package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

const (
	postgresql  = "postgresqlinstances.anynines.com"
	requestFile = "bindings/" + postgresql + "/request.yaml"
)

// TestBindingThroughGit binds with kubectl and with git alone, and unbinds again,
// and looks at both clusters. What is ordered has no delivery behind it.
func TestBindingThroughGit(t *testing.T) {
	t.Parallel()
	p := start(t, platform.Options{Plain: true})
	c := connectOnly(t, p, env.Alice, env.App)
	ctx := t.Context()
	manifest := filepath.Join(t.TempDir(), "binding.yaml")
	step := func(name string, do func(t *testing.T)) {
		if !t.Run(name, do) {
			t.FailNow()
		}
	}
	step("A4_bind returns what to apply", func(t *testing.T) {
		out := must(t)(p.Plugin(ctx, c.user, c.admin(), "bind", "postgresql", "-o", "yaml", "--dry-run"))
		_, out, _ = strings.Cut("\n"+out, "\napiVersion:")
		if err := os.WriteFile(manifest, []byte("apiVersion:"+out), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := p.Kubectl(ctx, c.Control(), "get", "apiserviceexports", "-A", "-o", "name"); err != nil || strings.Contains(out, postgresql) {
			t.Errorf("it granted something: %s %v", out, err)
		}
	})

	step("B14_who may not bind is told how", func(t *testing.T) {
		// The API server learns of a new kind that has a policy within seconds.
		eventually(t, "it can be applied", func(ctx context.Context) (string, bool) {
			out, err := p.Kubectl(ctx, c.admin(), "apply", "-f", manifest)
			return out, err == nil
		})
		message := c.bindingSays(t, "Ready", "Denied")
		must(t)(p.Git(ctx, c.user, c.clone, "fetch", "--quiet"))
		by := must(t)(p.Git(ctx, c.user, c.clone, "log", "-1", "--format=%an", "origin/main", "--", requestFile))
		if who := must(t)(p.Kubectl(ctx, c.admin(), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")); strings.TrimSpace(by) != who {
			t.Errorf("the request is by %q, not by %q, who applied it", by, who)
		}
		_, right, _ := strings.Cut(message, "gives its ServiceAccount ")
		account, offer, ok := strings.Cut(right, " the verb bind on apiserviceexporttemplates/")
		if !ok {
			t.Fatalf("it does not say how: %s", message)
		}
		// As docs/operating.md has it.
		name := c.id + "-binds-" + offer
		role := filepath.Join(t.TempDir(), "role.yaml")
		if err := os.WriteFile(role, []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: "+name+"}\n"+
			"rules:\n- {apiGroups: [gitbind.dev], resources: [apiserviceexporttemplates], resourceNames: ["+offer+"], verbs: [bind]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t)(p.Kubectl(ctx, c.Control(), "apply", "-f", role))
		must(t)(p.Kubectl(ctx, c.Control(), "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+account))
	})
	step("A5_applying it installs the API", func(t *testing.T) {
		c.bindingSays(t, "Ready", "Bound")
		c.bindingSays(t, "Granted", "Granted")
		c.orderOne(t, "first")
	})
	step("unbinding waits for the claims", func(t *testing.T) {
		must(t)(p.Kubectl(ctx, c.admin(), "delete", "apiservicebinding", postgresql, "--wait=false"))
		c.bindingSays(t, "Ready", "ClaimsExist")
		must(t)(p.Kubectl(ctx, c.admin(), "delete", "postgresqlinstance", "first", "-n", "team-a", "--timeout=2m"))
		c.unbound(t)
	})

	step("a pull request binds and unbinds", func(t *testing.T) {
		// The rights in the app cluster are for its own people to give.
		rights := strings.Split(string(must2(t)(os.ReadFile(manifest))), "\n---\n")
		if err := os.WriteFile(manifest, []byte(strings.Join(rights[:len(rights)-1], "\n---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t)(p.Kubectl(ctx, c.admin(), "apply", "-f", manifest))
		c.push(t, "Bind PostgreSQL", func(dir string) {
			write(t, dir, requestFile, fmt.Sprintf("apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata: {name: %s}\n", postgresql))
		})
		c.bindingSays(t, "Ready", "Bound")
		c.orderOne(t, "second")
		t.Run("B12_orphaned services stay", func(t *testing.T) {
			c.push(t, "Let services stay", func(dir string) {
				write(t, dir, requestFile, fmt.Sprintf("apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata: {name: %s}\nspec: {deletionPolicy: Orphan}\n", postgresql))
			})
			eventually(t, "that has reached the app cluster", func(ctx context.Context) (string, bool) {
				out, err := p.Kubectl(ctx, c.admin(), "get", "apiservicebinding", postgresql, "-o", "jsonpath={.spec.deletionPolicy}")
				return out, err == nil && out == "Orphan"
			})
			c.push(t, "Unbind", func(dir string) {
				if err := os.Remove(filepath.Join(dir, requestFile)); err != nil {
					t.Fatal(err)
				}
			})
			c.unbound(t)
			out := must(t)(p.Kubectl(ctx, c.Control(), "get", "postgresqlinstance", "second", "-n", c.claimNamespace(), "-o", "jsonpath={.spec.plan} {.metadata.deletionTimestamp}"))
			if out != nano+" " {
				t.Errorf("the service is %q", out)
			}
			if tree := must(t)(p.Git(ctx, c.user, c.clone, "ls-tree", "-r", "--name-only", "origin/main")); !strings.Contains(tree, "second.yaml") {
				t.Errorf("its file is not on main:\n%s", tree)
			}
		})
		t.Run("what is bound again has them", func(t *testing.T) {
			uid := c.serviceUID(t, "second")
			must(t)(p.Kubectl(ctx, c.admin(), "apply", "-f", manifest))
			c.push(t, "Bind PostgreSQL again", func(dir string) {
				write(t, dir, requestFile, fmt.Sprintf("apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata: {name: %s}\n", postgresql))
			})
			c.bindingSays(t, "Ready", "Bound")
			eventually(t, "the claim is applied", func(ctx context.Context) (string, bool) {
				out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", "second", "-n", "team-a", "-o", `jsonpath={.status.gitbind.conditions[?(@.type=="Applied")].status}`)
				return out, err == nil && out == "True"
			})
			if now := c.serviceUID(t, "second"); now != uid {
				t.Errorf("the service is another one: %s, was %s", now, uid)
			}
		})
	})
	t.Run("C5_an API of another domain is bound in the same way, with its Secret", func(t *testing.T) { testOtherDomain(t, c) })
}

func must2(t *testing.T) func([]byte, error) []byte {
	t.Helper()
	return func(out []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// connectOnly is a tenant without an API.
func connectOnly(t *testing.T, p *platform.Platform, user, cluster string) *tenant {
	t.Helper()
	c := register(t, p, user, cluster)
	url, err := p.CloneURL(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	c.cloneFrom(t, url)
	return c
}

// cloneFrom clones the tenant's repository.
func (c *tenant) cloneFrom(t *testing.T, url string) {
	t.Helper()
	c.clone = filepath.Join(t.TempDir(), "clone")
	must(t)(c.Git(t.Context(), c.user, c.Dir, "clone", "--quiet", url, c.clone))
}

// register connects a cluster, in which there is a namespace then.
func register(t *testing.T, p *platform.Platform, user, cluster string) *tenant {
	t.Helper()
	ctx := t.Context()
	must(t)(p.Connect(ctx, user, cluster))
	c := &tenant{Platform: p, cluster: cluster, user: user}
	must(t)(p.Kubectl(ctx, c.admin(), "create", "namespace", "team-a"))
	var err error
	if c.id, err = p.ClusterID(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	return c
}

// bindingSays waits for the reason of a condition, and returns its message.
func (c *tenant) bindingSays(t *testing.T, condition, reason string) string {
	t.Helper()
	path := fmt.Sprintf(`{.status.conditions[?(@.type==%q)]`, condition)
	said := eventually(t, condition+" of the binding is "+reason, func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "apiservicebinding", postgresql, "-o", "jsonpath="+path+".reason}: "+path+".message}")
		return out, err == nil && strings.HasPrefix(out, reason+": ")
	})
	return strings.TrimPrefix(said, reason+": ")
}

// orderOne applies a claim and waits until it is on the control plane.
func (c *tenant) orderOne(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claim.yaml")
	if err := os.WriteFile(path, []byte(manifest(name, nano)), 0o600); err != nil {
		t.Fatal(err)
	}
	// The API server learns of a new kind that has a policy within seconds.
	eventually(t, name+" can be applied", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "apply", "-f", path)
		return out, err == nil
	})
	eventually(t, name+" is on the control plane", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.Control(), "get", "postgresqlinstance", name, "-n", c.claimNamespace(), "-o", "jsonpath={.spec.plan}")
		return out, err == nil && out == nano
	})
}

func (c *tenant) serviceUID(t *testing.T, name string) string {
	t.Helper()
	return must(t)(c.Kubectl(t.Context(), c.Control(), "get", "postgresqlinstance", name, "-n", c.claimNamespace(), "-o", "jsonpath={.metadata.uid}"))
}

// unbound waits until nothing of the API is left for the cluster, on both sides.
func (c *tenant) unbound(t *testing.T) {
	t.Helper()
	for what, ask := range map[string][]string{
		"the binding":        {c.admin(), "get", "apiservicebinding", postgresql},
		"its definition":     {c.admin(), "get", "crd", postgresql},
		"its policy binding": {c.admin(), "get", "mutatingadmissionpolicybinding", "gitbind-" + postgresql},
		"its role":           {c.admin(), "get", "clusterrole", "gitbind:api:" + postgresql},
		"its role binding":   {c.admin(), "get", "clusterrolebinding", "gitbind:api:" + postgresql},
		"people's role":      {c.admin(), "get", "clusterrole", "gitbind:api:" + postgresql + ":edit"},
		"the export":         {c.Control(), "get", "apiserviceexport", postgresql, "-n", "gb-" + c.id},
	} {
		eventually(t, what+" is gone", func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, ask[0], ask[1:]...)
			return out, err != nil && strings.Contains(out, "NotFound")
		})
	}
	eventually(t, "its rights on the control plane are gone", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.Control(), "auth", "can-i", "create", postgresql, "-n", c.claimNamespace(), "--as=system:serviceaccount:gb-"+c.id+":gitbind-tenant")
		return out, err != nil && strings.TrimSpace(strings.Split(out, "\n")[0]) == "no"
	})
	// The bridge takes export.yaml off status once the export has gone.
	eventually(t, "neither branch has it", func(ctx context.Context) (string, bool) {
		trees, err := c.Git(ctx, c.user, c.clone, "fetch", "--quiet")
		for _, branch := range []string{"main", "status"} {
			if err == nil {
				var tree string
				tree, err = c.Git(ctx, c.user, c.clone, "ls-tree", "-r", "--name-only", "origin/"+branch)
				trees += tree
			}
		}
		return trees, err == nil && !strings.Contains(trees, "request.yaml") && !strings.Contains(trees, "export.yaml")
	})
}
