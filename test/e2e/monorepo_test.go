package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testMonorepo keeps the repository as a folder of another one, with git subtree as the guide has
// it: a commit there changes other things, too, and the konnector's commits come there.
func testMonorepo(t *testing.T, c *tenant) {
	ctx, monorepo, folder := t.Context(), t.TempDir(), "clusters/shop"
	git := func(args ...string) string { t.Helper(); return must(t)(c.Git(ctx, c.user, monorepo, args...)) }
	url := strings.TrimSpace(must(t)(c.Git(ctx, c.user, c.clone, "remote", "get-url", "origin")))
	commit := func(message, plan string) {
		t.Helper()
		write(t, monorepo, "infrastructure.txt", message)
		write(t, monorepo, filepath.Join(folder, claims, "team-a/monorepo.yaml"), manifest("monorepo", plan))
		git("add", "--all")
		git("commit", "--quiet", "--message", message)
	}
	pull := func(ctx context.Context) (string, error) {
		return c.Git(ctx, c.user, monorepo, "subtree", "pull", "--prefix="+folder, url, "main", "-m", "Merge what the cluster shop says")
	}
	push := func() {
		t.Helper()
		// The konnector may be first, as often as it has something to commit.
		eventually(t, "the folder is pushed", func(ctx context.Context) (string, bool) {
			if out, err := pull(ctx); err != nil {
				t.Fatal(out, err)
			}
			out, err := c.Git(ctx, c.user, monorepo, "subtree", "push", "--rejoin", "--prefix="+folder, url, "main")
			return out, err == nil
		})
	}
	git("init", "--quiet", "--initial-branch=main")
	write(t, monorepo, "infrastructure.txt", "none")
	git("add", "--all")
	git("commit", "--quiet", "--message", "Begin")
	git("subtree", "add", "--prefix="+folder, url, "main")

	commit("Order a database, and more machines", nano)
	push()
	c.until(t, c.control, "what the monorepo orders is there", c.there("monorepo", nano))
	c.until(t, c.app, "what the monorepo orders is in the cluster", has("monorepo", nano))

	c.edit(t, "monorepo", "cluster-plan")
	eventually(t, "what kubectl changed is in the monorepo", func(ctx context.Context) (string, bool) {
		if out, err := pull(ctx); err != nil {
			return out, false
		}
		data, err := os.ReadFile(filepath.Join(monorepo, folder, claims, "team-a/monorepo.yaml"))
		return string(data), err == nil && strings.Contains(string(data), "plan: cluster-plan")
	})

	commit("Grow the database, and fewer machines", "monorepo-plan")
	push()
	c.until(t, c.app, "what the monorepo changes is in the cluster", has("monorepo", "monorepo-plan"))
	must(t)(c.Git(ctx, c.user, c.clone, "pull", "--quiet", "--rebase"))
	log := must(t)(c.Git(ctx, c.user, c.clone, "log", "--no-merges", "--format=%an: %s", "--", claims+"team-a/monorepo.yaml"))
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) != 3 || lines[0] != c.user+": Grow the database, and fewer machines" || lines[2] != c.user+": Order a database, and more machines" {
		t.Errorf("the claim's history in the repository is\n%s", log)
	}
	if files := must(t)(c.Git(ctx, c.user, c.clone, "ls-files", "infrastructure.txt")); files != "" {
		t.Errorf("the repository has what is beside the folder: %s", files)
	}
}
