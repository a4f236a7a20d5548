package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/test/scan"
)

// testSecretTravels has a Secret of a claim travel from the control plane to the app
// cluster, with the keys that all parts made and registered themselves.
func testSecretTravels(t *testing.T, c *tenant, all *scan.Scan) {
	ctx := t.Context()
	kubectl := func(kubeconfig string, args ...string) string {
		t.Helper()
		return must(t)(c.Kubectl(ctx, kubeconfig, args...))
	}
	kubectl(c.Control(), "patch", "apiserviceexporttemplate", "postgresql", "--type=merge", "-p", `{"spec":{"permissionClaims":[{"name":"$(name)-creds"}]}}`)
	c.apply(t, manifest("served", nano))
	c.until(t, c.control, "the claim is there", c.there("served", nano))
	connection := kubectl(c.admin(), "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].metadata.name}")
	kubectl(c.admin(), "wait", "--for=condition=Encryption", "--timeout=1m", "connections.gitbind.dev/"+connection)
	for name, value := range c.secret(t, all, c.admin(), "gitbind-system", "encryption-"+connection) {
		for line := range strings.Lines(value) {
			if !strings.HasPrefix(line, "#") {
				all.Add(strings.TrimSpace(line))
			}
		}
		t.Logf("%s is kept in the app cluster", name)
	}

	// By a file: a command line may be read by others.
	serve := func() (password string) {
		t.Helper()
		password = all.Value(rand.Text())
		dir := t.TempDir()
		write(t, dir, "secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: served-creds, namespace: "+c.claimNamespace()+"}\nstringData: {host: db.example.org, password: "+password+"}\n")
		kubectl(c.Control(), "apply", "--server-side", "-f", filepath.Join(dir, "secret.yaml"))
		return password
	}
	password := serve()
	has := func(want string) func(context.Context) (string, bool) {
		return func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.admin(), "get", "secret", "served-creds", "-n", "team-a", "--ignore-not-found", "-o", "jsonpath={.data.password}")
			got, _ := base64.StdEncoding.DecodeString(out)
			return "another value, or none", err == nil && string(got) == want
		}
	}
	eventually(t, "the Secret is in the app cluster", has(password))
	out := kubectl(c.admin(), "get", "postgresqlinstance", "served", "-n", "team-a", "-o", `jsonpath={.status.gitbind.conditions[?(@.type=="Secrets")].status} {.status.gitbind.secrets[0].name}`)
	if out != "True served-creds" {
		t.Errorf("the claim says %q", out)
	}

	eventually(t, "the rotated value is in the app cluster", has(serve()))

	t.Run("D12_the key is rotated and the Secret follows on", func(t *testing.T) {
		// What travels next is encrypted to the other one.
		was := kubectl(c.Control(), "get", "clusterbinding", c.id, "-o", "jsonpath={.spec.encryption.recipients}")
		kubectl(c.admin(), "annotate", "secret", "encryption-"+connection, "-n", "gitbind-system", "gitbind.dev/rotate=now")
		eventually(t, "another key is registered", func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.Control(), "get", "clusterbinding", c.id, "-o", "jsonpath={.spec.encryption.recipients}")
			return out, err == nil && out != was
		})
		eventually(t, "the value that came after that is in the app cluster", has(serve()))
	})

	t.Run("D12_a credential is revoked and a value that came meanwhile follows", func(t *testing.T) {
		must(t)(c.Plugin(ctx, c.user, c.admin(), "revoke", "--yes"))
		c.says(t, "Revoked")
		password := serve()
		must(t)(c.Connect(ctx, c.user, c.cluster))
		c.credential(t, all)
		eventually(t, "the value is in the app cluster", has(password))
		c.says(t, "Valid")
	})

	kubectl(c.admin(), "delete", "postgresqlinstance", "served", "-n", "team-a", "--timeout=2m")
	eventually(t, "the Secret went with its claim", has(""))
}
