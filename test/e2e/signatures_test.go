package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testSignatures is of a Git host that somebody took over: what they push under the
// konnector's name orders nothing, until a person approves it.
func testSignatures(t *testing.T, c *tenant) {
	ctx := t.Context()
	must(t)(c.Kubectl(ctx, c.admin(), "patch", "connections.gitbind.dev", "default", "--type", "merge", "--patch", `{"spec":{"signCommits":true}}`))
	must(t)(c.Kubectl(ctx, c.admin(), "wait", "--for=jsonpath={.status.signingKey}", "--timeout=2m", "connections.gitbind.dev/default"))
	must(t)(c.Kubectl(ctx, c.Control(), "patch", "clusterbindings.gitbind.dev", c.id, "--type", "merge", "--patch", `{"spec":{"signatures":{}}}`))
	arrives := func(name, plan string) {
		t.Helper()
		eventually(t, name+" is "+plan, func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.Control(), "get", "postgresqlinstances", "-n", c.claimNamespace(), name, "-o", "jsonpath={.spec.plan}")
			return out, err == nil && out == plan
		})
	}
	synced := func(reason string) string {
		t.Helper()
		return eventually(t, "Synced is "+reason, func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.Control(), "get", "clusterbindings.gitbind.dev", c.id, "-o", `jsonpath={.status.conditions[?(@.type=="Synced")].reason} {.status.conditions[?(@.type=="Synced")].message}`)
			return out, err == nil && strings.HasPrefix(out, reason+" ")
		})
	}
	c.apply(t, manifest("signed", nano))
	arrives("signed", nano)

	c.push(t, "claim: update team-a/signed", func(dir string) {
		write(t, dir, claims+"team-a/signed.yaml", manifest("signed", small))
	})
	said := synced("MainUnsigned")
	arrives("signed", nano)
	head := strings.TrimSpace(must(t)(c.Git(ctx, c.user, c.clone, "rev-parse", "HEAD")))
	if !strings.Contains(said, head) {
		t.Errorf("it does not name the commit %s: %s", head, said)
	}
	must(t)(c.Plugin(ctx, c.user, c.Control(), "approve", "--main", head, "--yes"))
	arrives("signed", small)
	synced("Following")

	c.apply(t, manifest("signed-too", nano))
	arrives("signed-too", nano)
	signers := filepath.Join(t.TempDir(), "signers")
	keys := must(t)(c.Plugin(ctx, c.user, c.admin(), "allowed-signers"))
	if err := os.WriteFile(signers, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t)(c.Git(ctx, c.user, c.clone, "pull", "--quiet", "--rebase"))
	log := must(t)(c.Git(ctx, c.user, c.clone, "-c", "gpg.ssh.allowedSignersFile="+signers, "log", "--max-count=4", "--format=%G? %s", "--", claims+"team-a/signed.yaml", claims+"team-a/signed-too.yaml"))
	for prefix, want := range map[string]int{"G ": 2, "N claim: update team-a/signed\n": 1} {
		if got := strings.Count("\n"+log+"\n", "\n"+prefix); got != want {
			t.Errorf("%d commits of %q, want %d:\n%s\n%s", got, prefix, want, log, keys)
		}
	}
}
