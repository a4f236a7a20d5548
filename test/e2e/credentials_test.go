package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
	"gitbind.dev/test/scan"
)

// TestCredentials is about the credentials of agents, on one platform. What is
// ordered has no delivery behind it: that would only take time.
func TestCredentials(t *testing.T) {
	t.Parallel()
	p := start(t, platform.Options{
		Plain: true, AppClusters: []string{env.App, "app2"}, AgentArgs: []string{"--verbose"}, BackendArgs: []string{"--verbose"},
	})
	secrets := scan.New()
	watchProcesses(t, secrets)
	alice := connect(t, p, env.Alice, env.App)
	bob := connect(t, p, env.Bob, "app2")
	for _, c := range []*tenant{alice, bob} {
		must(t)(c.Kubectl(t.Context(), c.Control(), "wait", "--for=create", "--timeout=2m", "-n", "gb-"+c.id, "secret/gitbind-bridge"))
	}

	t.Run("F4_a Secret travels and follows its value and goes with its claim", func(t *testing.T) { testSecretTravels(t, alice, secrets) })
	t.Run("D12_a credential is renewed while claims are applied", func(t *testing.T) { testRenewed(t, alice, secrets) })
	t.Run("D12_a credential is rotated while claims are applied", func(t *testing.T) { testRotated(t, alice, secrets) })
	t.Run("D12_a credential is revoked while claims are applied", func(t *testing.T) { testRevoked(t, alice, secrets) })
	t.Run("D12_a credential expires while claims are applied", func(t *testing.T) { testExpired(t, alice, secrets) })
	t.Run("D12_the bridge's credential is rotated while claims are applied", func(t *testing.T) { testBridgeRotated(t, alice, secrets) })
	t.Run("what nobody who counts has signed orders nothing", func(t *testing.T) { testSignatures(t, alice) })
	t.Run("D17_a hostile app cluster reaches nothing of another tenant", func(t *testing.T) { testHostile(t, alice, bob, secrets) })
	t.Run("E14_repositories move to another host and no service is touched", func(t *testing.T) { testMovedHost(t, alice) })
	t.Run("F12_no secret is in a log or an Event or a status or a process list", func(t *testing.T) { testNothingTold(t, secrets, alice, bob) })
}

// credential is what is in the konnector's Secret.
func (c *tenant) credential(t *testing.T, all *scan.Scan) map[string]string {
	t.Helper()
	out := must(t)(c.Kubectl(t.Context(), c.admin(), "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].spec.secretRef.name}"))
	return c.secret(t, all, c.admin(), "gitbind-system", out)
}

func (c *tenant) secret(t *testing.T, all *scan.Scan, kubeconfig, namespace, name string) map[string]string {
	t.Helper()
	var s struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(must(t)(c.Kubectl(t.Context(), kubeconfig, "get", "secret", "-n", namespace, name, "-o", "json"))), &s); err != nil {
		t.Fatal(err)
	}
	for key, value := range s.Data {
		plain, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		if s.Data[key] = string(plain); strings.HasSuffix(key, "password") {
			all.Add(string(plain))
		}
	}
	return s.Data
}

// counts reports whether a credential opens a repository.
func (c *tenant) counts(t *testing.T, user, password, id string) bool {
	t.Helper()
	status := eventually(t, "the Git host says whether it counts", func(context.Context) (string, bool) {
		status, _ := basic(t, "GET", c.BackendURL+"/git/"+id+".git/info/refs?service=git-upload-pack", user, password)
		return status, status == "200" || status == "401"
	})
	return status == "200"
}

// during applies claims while something happens, and some more afterwards, and
// sees that each of them arrives with its last plan.
func (c *tenant) during(t *testing.T, prefix string, happen func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	last := map[string]string{}
	plans := []string{nano, small}
	// It is closed when nothing more is applied.
	applied := make(chan struct{}, 1000)
	defer busy.Wait()
	defer cancel()
	busy.Go(func() {
		defer close(applied)
		for i := 0; ctx.Err() == nil; i++ {
			name, plan := fmt.Sprint(prefix, i%8), plans[i/8%2]
			path := filepath.Join(t.TempDir(), "claim.yaml")
			if err := os.WriteFile(path, []byte(manifest(name, plan)), 0o600); err != nil {
				t.Error(err)
				return
			}
			if _, err := c.Kubectl(context.WithoutCancel(ctx), c.admin(), "apply", "-f", path); err != nil {
				t.Error(err)
				return
			}
			last[name] = plan
			applied <- struct{}{}
		}
	})
	some := func(n int) {
		for range n {
			<-applied
		}
	}
	some(2)
	happen()
	some(2)
	cancel()
	busy.Wait()
	eventually(t, "all claims arrive as they were applied last", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.Control(), "get", "postgresqlinstances", "-n", c.claimNamespace(), "-o", `jsonpath={range .items[*]}{.metadata.name}={.spec.plan}{"\n"}{end}`)
		there := strings.Fields(out)
		for name, plan := range last {
			if !slices.Contains(there, name+"="+plan) {
				return fmt.Sprintf("%s with %s is missing in\n%s", name, plan, out), false
			}
		}
		return out, err == nil
	})
}

// says waits for the condition Credential.
func (c *tenant) says(t *testing.T, reason string) {
	t.Helper()
	eventually(t, "the condition Credential is "+reason, func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "connections.gitbind.dev", "-o", `jsonpath={.items[0].status.conditions[?(@.type=="Credential")]}`)
		return out, err == nil && strings.Contains(out, `"reason":"`+reason+`"`)
	})
}

// expire has the credential end at a time, as the control plane sees it, and if
// so told as the app cluster does.
func (c *tenant) expire(t *testing.T, at time.Time, told bool) {
	t.Helper()
	patch := fmt.Sprintf(`{"stringData":{"expires":%q}}`, at.UTC().Format(time.RFC3339))
	must(t)(c.Kubectl(t.Context(), c.Control(), "patch", "secret", "-n", "gb-"+c.id, "gitbind-konnector", "--type=merge", "-p", patch))
	if told {
		name := must(t)(c.Kubectl(t.Context(), c.admin(), "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].spec.secretRef.name}"))
		must(t)(c.Kubectl(t.Context(), c.admin(), "patch", "secret", "-n", "gitbind-system", name, "--type=merge", "-p", patch))
	}
}

func testRenewed(t *testing.T, c *tenant, all *scan.Scan) {
	before := c.credential(t, all)["password"]
	c.says(t, "Valid")
	c.expire(t, time.Now().Add(5*time.Minute), false)
	c.during(t, "renewed", func() {
		// A konnector that begins now finds that it is late.
		k := c.Konnector(c.cluster)
		if err := k.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := k.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the Secret holds the next credential, and it alone", func(context.Context) (string, bool) {
			s := c.credential(t, all)
			return "", s["password"] != before && s["previous-password"] == ""
		})
		eventually(t, "the one before counts no more, after a use of the next one", func(context.Context) (string, bool) {
			return "it counts", !c.counts(t, "konnector", before, c.id)
		})
	})
	kept := c.secret(t, all, c.Control(), "gb-"+c.id, "gitbind-konnector")
	if kept["next-sha256"] != "" || !strings.HasPrefix(c.credential(t, all)["expires"], kept["expires"]) {
		t.Errorf("the control plane keeps %v", kept)
	}
	c.says(t, "Valid")
}

func testRotated(t *testing.T, c *tenant, all *scan.Scan) {
	before := c.credential(t, all)["password"]
	c.during(t, "rotated", func() {
		must(t)(c.Plugin(t.Context(), c.user, c.admin(), "rotate"))
		if now := c.credential(t, all)["password"]; now == before || !c.counts(t, "konnector", now, c.id) || c.counts(t, "konnector", before, c.id) {
			t.Error("rotated, and the new credential does not count, or the one before does")
		}
	})
	c.says(t, "Valid")
}

func testRevoked(t *testing.T, c *tenant, all *scan.Scan) {
	before := c.credential(t, all)["password"]
	c.during(t, "revoked", func() {
		must(t)(c.Plugin(t.Context(), c.user, c.admin(), "revoke", "--yes"))
		if c.counts(t, "konnector", before, c.id) {
			t.Error("it counts after it was revoked")
		}
		c.says(t, "Revoked")
		must(t)(c.Connect(t.Context(), c.user, c.cluster))
		c.credential(t, all)
		c.says(t, "Valid")
	})
}

func testExpired(t *testing.T, c *tenant, all *scan.Scan) {
	before := c.credential(t, all)["password"]
	c.during(t, "expired", func() {
		c.expire(t, time.Now().Add(-time.Second), true)
		c.says(t, "Expired")
		if c.counts(t, "konnector", before, c.id) {
			t.Error("it counts after it has expired")
		}
		must(t)(c.Connect(t.Context(), c.user, c.cluster))
		c.credential(t, all)
		c.says(t, "Valid")
	})
}

func testBridgeRotated(t *testing.T, c *tenant, all *scan.Scan) {
	read := func() string { return c.secret(t, all, c.Control(), "gb-"+c.id, "gitbind-bridge")["password"] }
	before := read()
	c.during(t, "bridge", func() {
		must(t)(c.Kubectl(t.Context(), c.Control(), "annotate", "secret", "-n", "gb-"+c.id, "gitbind-bridge", "gitbind.dev/rotate=now"))
		eventually(t, "the bridge has another credential", func(context.Context) (string, bool) { return "", read() != before })
		if c.counts(t, "bridge", before, c.id) {
			t.Error("the one before counts")
		}
	})
}

// watchProcesses looks at the list of processes until the test ends.
func watchProcesses(t *testing.T, all *scan.Scan) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() { all.Watch(ctx) })
	t.Cleanup(func() { cancel(); looking.Wait() })
}

// testNothingTold looks for every credential that there was.
func testNothingTold(t *testing.T, all *scan.Scan, tenants ...*tenant) {
	p := tenants[0].Platform
	for _, c := range tenants {
		c.credential(t, all)
		c.secret(t, all, c.Control(), "gb-"+c.id, "gitbind-bridge")
		addSession(t, all, p.Home(c.user))
	}
	if n := all.Known(); n < 8 {
		t.Fatalf("only %d secrets are known", n)
	}
	for _, process := range []*env.Process{p.Backend, p.Bridge, p.Konnector(env.App)} {
		log, err := os.ReadFile(process.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ToLower(string(log)), "debug") {
			t.Logf("the log of %s has no details", process.Name)
		}
	}
	if err := p.FindSecrets(t.Context(), all); err != nil {
		t.Error(err)
	}
	if err := all.Commands(); err != nil {
		t.Error(err)
	}
	// What is in all of these places is found in all of them.
	public := scan.New()
	for _, word := range []string{"postgresqlinstances.anynines.com", "gitbind-gitbridge", "gitbind-konnector"} {
		public.Add(word)
	}
	err := p.FindSecrets(t.Context(), public)
	if err == nil {
		t.Fatal("nothing was looked at")
	}
	for _, want := range []string{
		"logs/gitbridge.log", "logs/konnector-app.log", "an object of " + filepath.Join(p.GitDir, tenants[0].id+".git"),
		"cluster app, apiservicebindings", "cluster app, events", "cluster control, leases", "/metrics holds",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: not looked at", want)
		}
	}
}

// addSession adds what a person signed in with.
func addSession(t *testing.T, all *scan.Scan, home string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var session struct {
			IDToken, RefreshToken string
		}
		if json.Unmarshal(data, &session) == nil {
			all.Add(session.IDToken)
			all.Add(session.RefreshToken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
