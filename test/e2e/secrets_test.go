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
	kubectl(c.Control(), "patch", "apiserviceexporttemplate", "postgresql", "--type=merge", "-p", `{"spec":{"permissionClaims":[{"name":"$(name)-creds"},{"direction":"Up","name":"$(name)-ca"}]}}`)
	c.apply(t, manifest("served", nano))
	c.until(t, c.control, "the claim is there", c.there("served", nano))
	connection := kubectl(c.admin(), "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].metadata.name}")
	kubectl(c.admin(), "wait", "--for=condition=Encryption", "--timeout=2m", "connections.gitbind.dev/"+connection)
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
	eventually(t, "the claim says so", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", "served", "-n", "team-a", "-o", `jsonpath={.status.gitbind.conditions[?(@.type=="Secrets")].status} {.status.gitbind.secrets[0].name}`)
		return out, err == nil && out == "True served-creds"
	})

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

	wentUp := func(context.Context) (string, bool) { return "the test before it failed", false }
	t.Run("A11_a Secret that the claim refers to goes up and follows its value", func(t *testing.T) { wentUp = testInputsTravel(t, c, all) })

	kubectl(c.admin(), "delete", "postgresqlinstance", "served", "-n", "team-a", "--timeout=2m")
	eventually(t, "the Secret went with its claim", has(""))
	eventually(t, "what the claim referred to went from the control plane", wentUp)
}

// testInputsTravel has a Secret that the claim served refers to travel from the app cluster
// to the control plane, once the konnector may read it. It returns whether it is gone there.
func testInputsTravel(t *testing.T, c *tenant, all *scan.Scan) (gone func(context.Context) (string, bool)) {
	ctx := t.Context()
	put := func() (password string) {
		t.Helper()
		password = all.Value(rand.Text())
		dir := t.TempDir()
		write(t, dir, "secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: served-ca, namespace: team-a}\nstringData: {password: "+password+"}\n")
		must(t)(c.Kubectl(ctx, c.admin(), "apply", "--server-side", "-f", filepath.Join(dir, "secret.yaml")))
		return password
	}
	has := func(want string) func(context.Context) (string, bool) {
		return func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.Control(), "get", "secret", "served-ca", "-n", c.claimNamespace(), "--ignore-not-found", "-o", "jsonpath={.data.password}")
			got, _ := base64.StdEncoding.DecodeString(out)
			return "another value, or none", err == nil && string(got) == want
		}
	}
	says := func(reason string) {
		t.Helper()
		eventually(t, "the claim says "+reason, func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", "served", "-n", "team-a", "-o", `jsonpath={.status.gitbind.conditions[?(@.type=="Inputs")].reason}`)
			return out, err == nil && out == reason
		})
	}
	password := put()
	says("Forbidden")
	// As the condition says.
	must(t)(c.Kubectl(ctx, c.admin(), "create", "rolebinding", "gitbind-konnector-inputs", "-n", "team-a", "--clusterrole=gitbind-konnector-inputs", "--serviceaccount=gitbind-system:konnector"))
	eventually(t, "the Secret is on the control plane", has(password))
	says("Taken")
	eventually(t, "the rotated value is on the control plane", has(put()))
	return has("")
}
