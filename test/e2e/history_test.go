package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// testGoBack looks back at a claim that was changed on both sides, and takes it
// back; and one that was deleted before.
func testGoBack(t *testing.T, c *tenant) {
	c.order(t, "wayback")
	c.edit(t, "wayback", "cluster-plan")
	c.until(t, c.control, "the edit is on the control plane", c.there("wayback", "cluster-plan"))
	c.push(t, "Give wayback the plan of the file", func(dir string) { write(t, dir, claims+"team-a/wayback.yaml", manifest("wayback", "file-plan")) })
	c.until(t, c.app, "the file's plan is in the cluster", has("wayback", "file-plan"))

	out := c.plugin(t, "log", orders+"wayback", "-n", "team-a", "-o", "json", "-p")
	var history struct {
		Items []struct {
			Commit, Change, Diff string
			Author               struct{ Name, Email string }
		}
	}
	if err := json.Unmarshal([]byte(out), &history); err != nil || len(history.Items) != 3 {
		t.Fatalf("%v: the history has not three commits:\n%s", err, out)
	}
	if by := history.Items[0].Author.Name; by != c.user {
		t.Errorf("the file was changed by %q, want %q", by, c.user)
	}
	if by := history.Items[1].Author.Email; !strings.HasSuffix(by, "@"+c.id+".clusters.gitbind.dev") {
		t.Errorf("the object was changed by %q", by)
	}
	if diff := history.Items[0].Diff; !strings.Contains(diff, "\n-  plan: cluster-plan\n") || !strings.Contains(diff, "\n+  plan: file-plan\n") {
		t.Errorf("the newest commit changed\n%s", diff)
	}
	c.goesBack(t, "wayback", "~1", "cluster-plan")
	c.goesBack(t, "wayback", history.Items[2].Commit, nano)
	eventually(t, "the cluster and main say the same", func(ctx context.Context) (string, bool) {
		out, err := c.Plugin(ctx, c.user, c.admin(), "diff", orders+"wayback", "-n", "team-a")
		return out, err == nil && out == ""
	})

	out = c.plugin(t, "log", orders+"dropped", "-n", "team-a")
	if !regexp.MustCompile(`(?m)^~0 +[0-9a-f]{10} +removed `).MatchString(out) {
		t.Fatalf("the history does not begin with the removal:\n%s", out)
	}
	c.goesBack(t, "dropped", "~1", nano)
}

// goesBack rolls a claim back, and checks that the commit that is printed says so,
// and that the control plane follows.
func (c *tenant) goesBack(t *testing.T, name, revision, plan string) {
	t.Helper()
	out := c.plugin(t, "rollback", orders+name, revision, "-n", "team-a", "--yes", "--timeout=3m")
	m := regexp.MustCompile(`(?m)^Committed: ([0-9a-f]{40})$`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("rollback prints no commit:\n%s", out)
	}
	c.until(t, c.control, "it is on the control plane", c.there(name, plan))
	must(t)(c.Git(t.Context(), c.user, c.clone, "pull", "--quiet", "--rebase"))
	if file := must(t)(c.Git(t.Context(), c.user, c.clone, "show", m[1]+":"+claims+"team-a/"+name+".yaml")); !strings.Contains(file, "plan: "+plan) {
		t.Errorf("commit %s says\n%s\nwant the plan %s", m[1], file, plan)
	}
}
