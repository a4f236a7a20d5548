package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gitbind.dev/test/env"
)

// testCopied is a recovery drill: what etcd of the app cluster holds is started beside it,
// in another cluster that has nothing else, and torn down.
func testCopied(t *testing.T, c *tenant, commands []*pageCommand) {
	ctx := t.Context()
	c.order(t, "kept-1", "kept-2")
	// A copy of one or two deletes is no flood: it is not the limits that hold them.
	must(t)(c.Kubectl(ctx, c.admin(), "patch", "connections.gitbind.dev", "default", "--type=merge", "-p", `{"spec":{"removals":{"most":50}}}`))
	before := c.services(t)
	copied := c.Cluster(rebuilt)
	empty, err := copied.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held, err := c.Cluster(c.cluster).State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Reset(ctx, held); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its API server serves what it was given", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, copied.Kubeconfig, "get", "postgresqlinstance", "kept-1", "kept-2", "-n", "team-a")
		return out, err == nil
	})
	konnector := c.startCopy(t)

	for _, name := range []string{"kept-1", "kept-2"} {
		must(t)(c.Kubectl(ctx, copied.Kubeconfig, "delete", "postgresqlinstance", name, "-n", "team-a", "--wait=false"))
	}
	for _, kubeconfig := range []string{c.admin(), copied.Kubeconfig} {
		c.connectionSays(t, kubeconfig, "False Copied", "--reclaim "+c.id)
	}
	c.clusterSays(t, "Copied", "True TwoLive", "--reclaim "+c.id)
	c.clusterSays(t, "Synced", "False Copied", "owner")
	must(t)(c.Kubectl(ctx, copied.Kubeconfig, "delete", "postgresqlinstances", "--all", "-n", "team-a", "--wait=false"))
	c.edit(t, "kept-1", small)
	for kubeconfig, name := range map[string]string{c.admin(): "kept-1", copied.Kubeconfig: "kept-2"} {
		eventually(t, name+" is held", func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, kubeconfig, "get", "postgresqlinstance", name, "-n", "team-a", "-o", `jsonpath={.status.gitbind.conditions[?(@.type=="Held")].reason}`)
			return out, err == nil && out == "Copied"
		})
	}
	if out, err := c.Plugin(ctx, c.user, c.admin(), "connect", c.BackendURL, "--no-deployment", "--yes"); err == nil || !strings.Contains(out, "--reclaim "+c.id) {
		t.Errorf("connecting again decides which one goes on: %v\n%s", err, out)
	}

	c.types(t, commands[0], fill{"URL": c.BackendURL + andProcess, "ID": c.id})
	c.connectionSays(t, c.admin(), "True Connected", "")
	c.connectionSays(t, copied.Kubeconfig, "False Copied", "Tear this one down")
	c.clusterSays(t, "Copied", "", "")
	c.clusterSays(t, "Synced", "True", "")
	c.until(t, c.control, "the original goes on", c.there("kept-1", small))
	if after := c.services(t); after != before {
		t.Errorf("the services were\n%s\nand are\n%s", before, after)
	}
	// A delete in the one that goes on is one as ever.
	must(t)(c.Kubectl(ctx, c.admin(), "delete", "postgresqlinstance", "kept-2", "-n", "team-a"))

	if err := errors.Join(konnector.Stop(ctx), copied.Reset(ctx, empty)); err != nil {
		t.Fatal(err)
	}
}

// startCopy starts the konnector of the copy. In a snapshot its pod has the name of the
// original's, and with it the Lease.
func (c *tenant) startCopy(t *testing.T) *env.Process {
	t.Helper()
	program, err := c.KonnectorProgram(t.Context(), rebuilt)
	if err != nil {
		t.Fatal(err)
	}
	args := program.Args
	program.Args = func(ports []int) []string { return append(args(ports), "--lease-identity=konnector-"+c.cluster) }
	process, _, err := c.Run(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	return process
}

// services are the tenant's on the control plane: names, UIDs, and whether they go.
func (c *tenant) services(t *testing.T) string {
	t.Helper()
	return must(t)(c.Kubectl(t.Context(), c.Control(), "get", "postgresqlinstances", "-n", c.claimNamespace(),
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.deletionTimestamp}{"\n"}{end}`))
}

// connectionSays waits for a Connection's condition Ready: its status and reason, and words
// of its message.
func (c *tenant) connectionSays(t *testing.T, kubeconfig, want, words string) (message string) {
	t.Helper()
	return c.conditionSays(t, kubeconfig, []string{"connections.gitbind.dev"}, "items[0].", "Ready", want, words)
}

// clusterSays waits for a condition of the ClusterBinding, "" for none.
func (c *tenant) clusterSays(t *testing.T, condition, want, words string) {
	t.Helper()
	c.conditionSays(t, c.Control(), []string{"clusterbinding", c.id}, "", condition, want, words)
}

func (c *tenant) conditionSays(t *testing.T, kubeconfig string, object []string, item, condition, want, words string) (answer string) {
	t.Helper()
	path := fmt.Sprintf(`.%sstatus.conditions[?(@.type==%q)]`, item, condition)
	return eventually(t, fmt.Sprintf("%s says %s %q and %q", object, condition, want, words), func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, kubeconfig, append([]string{"get"}, append(object, "-o", fmt.Sprintf("jsonpath={%[1]s.status} {%[1]s.reason} {%[1]s.message}", path))...)...)
		found := strings.HasPrefix(out, want) && strings.Contains(out, words)
		return fmt.Sprint(out, err), err == nil && found && (want != "" || strings.TrimSpace(out) == "")
	})
}
