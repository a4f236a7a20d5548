package e2e

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/test/gitlab"
)

// testMovedHost has an operator give the backend another Git host, and the owner connect the
// cluster again, while claims are applied.
func testMovedHost(t *testing.T, c *tenant) {
	ctx := t.Context()
	lab := gitlab.New(t, 0)
	token := filepath.Join(t.TempDir(), "token")
	write(t, filepath.Dir(token), filepath.Base(token), lab.Person("gitbind", gitlab.Maintainer, "api"))
	objects := func() []string {
		t.Helper()
		return strings.Fields(must(t)(c.Kubectl(ctx, c.Control(), "get", "postgresqlinstances", "-n", c.claimNamespace(), "-o", "jsonpath={.items[*].metadata.uid}")))
	}
	services := objects()
	repository := filepath.Join(c.GitDir, c.id+".git")
	var last string
	c.during(t, "moved", func() {
		if err := c.Backend.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		last = must(t)(c.Git(ctx, c.user, repository, "rev-parse", "main"))
		c.Backend.AddArgs("--gitlab-url="+lab.Server.URL, "--gitlab-group="+lab.Group, "--gitlab-token-file="+token)
		if err := c.Backend.Start(ctx); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the control plane says where the repository is", func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.Control(), "get", "clusterbinding", c.id, "-o", `jsonpath={.status.repository.url} {.status.conditions[?(@.type=="Ready")].status}`)
			return out, err == nil && out == lab.Server.URL+"/"+lab.Group+"/"+c.id+".git True"
		})
		must(t)(c.Connect(ctx, c.user, c.cluster))
	})
	if url := must(t)(c.CloneURL(ctx, c.cluster)); !strings.HasPrefix(url, lab.Server.URL) {
		t.Errorf("the cluster follows %s", url)
	}
	c.says(t, "Valid")
	now := objects()
	for _, uid := range services {
		if !slices.Contains(now, uid) {
			t.Errorf("the object %s is gone", uid)
		}
	}
	// What is held stays so until a person decides, and is neither committed nor applied.
	eventually(t, "nothing is held", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstances", "-n", "team-a", "-o", `jsonpath={range .items[*]}{.status.gitbind.conditions[?(@.type=="Held")].message}{end}`)
		return out, err == nil && out == ""
	})
	// The copy that the backend has of it goes on from where it was.
	eventually(t, "the backend shows what is there", func(ctx context.Context) (string, bool) {
		out, err := c.Git(ctx, c.user, repository, "log", "--format=%H", "main")
		return out, err == nil && strings.Contains(out, last) && !strings.HasPrefix(out, last)
	})
}
