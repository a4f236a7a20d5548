package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// TestCredentials is about the credentials of agents, on one platform. What is
// ordered has no delivery behind it: that would only take time.
func TestCredentials(t *testing.T) {
	t.Parallel()
	p := start(t, platform.Options{
		Plain: true, AppClusters: []string{env.App, "app2"}, AgentArgs: []string{"--verbose"}, BackendArgs: []string{"--verbose"},
	})
	secrets := &secrets{}
	secrets.watchProcesses(t)
	alice := connect(t, p, env.Alice, env.App)
	bob := connect(t, p, env.Bob, "app2")
	for _, c := range []*tenant{alice, bob} {
		must(t)(c.Kubectl(t.Context(), c.Control(), "wait", "--for=create", "--timeout=1m", "-n", "gb-"+c.id, "secret/gitbind-bridge"))
	}

	t.Run("F4_a Secret travels and follows its value and goes with its claim", func(t *testing.T) { testSecretTravels(t, alice, secrets) })
	t.Run("D12_a credential is renewed while claims are applied", func(t *testing.T) { testRenewed(t, alice, secrets) })
	t.Run("D12_a credential is rotated while claims are applied", func(t *testing.T) { testRotated(t, alice, secrets) })
	t.Run("D12_a credential is revoked while claims are applied", func(t *testing.T) { testRevoked(t, alice, secrets) })
	t.Run("D12_a credential expires while claims are applied", func(t *testing.T) { testExpired(t, alice, secrets) })
	t.Run("D12_the bridge's credential is rotated while claims are applied", func(t *testing.T) { testBridgeRotated(t, alice, secrets) })
	t.Run("D17_a hostile app cluster reaches nothing of another tenant", func(t *testing.T) { testHostile(t, alice, bob, secrets) })
	t.Run("no secret is in a log or an Event or a status or a process list", func(t *testing.T) { testNothingTold(t, secrets, alice, bob) })
}

// credential is what is in the konnector's Secret.
func (c *tenant) credential(t *testing.T, all *secrets) map[string]string {
	t.Helper()
	out := must(t)(c.Kubectl(t.Context(), c.admin(), "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].spec.secretRef.name}"))
	return c.secret(t, all, c.admin(), "gitbind-system", out)
}

func (c *tenant) secret(t *testing.T, all *secrets, kubeconfig, namespace, name string) map[string]string {
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
			all.add(string(plain))
		}
	}
	return s.Data
}

// counts reports whether a credential opens a repository.
func (c *tenant) counts(t *testing.T, user, password, id string) bool {
	t.Helper()
	status, _ := basic(t, "GET", c.BackendURL+"/git/"+id+".git/info/refs?service=git-upload-pack", user, password)
	if status != "200" && status != "401" {
		t.Fatalf("the Git host answered %s", status)
	}
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
	applied := make(chan struct{}, 1000)
	busy.Go(func() {
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

func testRenewed(t *testing.T, c *tenant, all *secrets) {
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
		if c.counts(t, "konnector", before, c.id) {
			t.Error("the one before counts after the first use of the next one")
		}
	})
	kept := c.secret(t, all, c.Control(), "gb-"+c.id, "gitbind-konnector")
	if kept["next-sha256"] != "" || !strings.HasPrefix(c.credential(t, all)["expires"], kept["expires"]) {
		t.Errorf("the control plane keeps %v", kept)
	}
	c.says(t, "Valid")
}

func testRotated(t *testing.T, c *tenant, all *secrets) {
	before := c.credential(t, all)["password"]
	c.during(t, "rotated", func() {
		must(t)(c.Plugin(t.Context(), c.user, c.admin(), "rotate"))
		if now := c.credential(t, all)["password"]; now == before || !c.counts(t, "konnector", now, c.id) || c.counts(t, "konnector", before, c.id) {
			t.Error("rotated, and the new credential does not count, or the one before does")
		}
	})
	c.says(t, "Valid")
}

func testRevoked(t *testing.T, c *tenant, all *secrets) {
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

func testExpired(t *testing.T, c *tenant, all *secrets) {
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

func testBridgeRotated(t *testing.T, c *tenant, all *secrets) {
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

// secrets are all that nobody must be told.
type secrets struct {
	mu  sync.Mutex
	all map[string]bool
	// seen are the command lines of all processes that there were.
	seen map[string]bool
}

func (s *secrets) add(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]bool{}
	}
	if len(secret) > 20 {
		s.all[secret] = true
	}
}

// in gives the first secret that a text holds.
func (s *secrets) in(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for secret := range s.all {
		if strings.Contains(text, secret) {
			return secret
		}
	}
	return ""
}

// watchProcesses looks at the list of processes again and again.
func (s *secrets) watchProcesses(t *testing.T) {
	t.Helper()
	s.seen = map[string]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			entries, _ := os.ReadDir("/proc")
			for _, e := range entries {
				if _, err := strconv.Atoi(e.Name()); err != nil {
					continue
				}
				line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
				s.mu.Lock()
				s.seen[string(line)] = true
				s.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); looking.Wait() })
}

// testNothingTold looks for every credential that there was.
func testNothingTold(t *testing.T, all *secrets, tenants ...*tenant) {
	p := tenants[0].Platform
	for _, c := range tenants {
		c.credential(t, all)
		c.secret(t, all, c.Control(), "gb-"+c.id, "gitbind-bridge")
		addSession(t, all, p.Home(c.user))
	}
	if n := len(all.all); n < 8 {
		t.Fatalf("only %d secrets are known", n)
	}
	look := func(where, text string) {
		t.Helper()
		if len(text) == 0 {
			t.Errorf("%s is empty: nothing was looked at", where)
		}
		if secret := all.in(text); secret != "" {
			t.Errorf("%s holds %s…", where, secret[:8])
		}
	}
	for _, process := range append([]*env.Process{p.Backend}, slices.Concat(p.Bridges, p.Konnectors(env.App), p.Konnectors("app2"))...) {
		log, err := os.ReadFile(process.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		look("the log of "+process.Name, string(log))
		if !strings.Contains(strings.ToLower(string(log)), "debug") {
			t.Logf("the log of %s has no details", process.Name)
		}
	}
	kinds := map[string]string{
		env.Control: "events,clusterbindings.gitbind.dev,apiserviceexports.gitbind.dev,apiserviceexporttemplates.gitbind.dev,postgresqlinstances,configmaps,leases",
		env.App:     "events,connections.gitbind.dev,apiservicebindings.gitbind.dev,postgresqlinstances,configmaps,leases",
		"app2":      "events,connections.gitbind.dev,apiservicebindings.gitbind.dev,postgresqlinstances,configmaps,leases",
	}
	for cluster, kinds := range kinds {
		look("the objects in "+cluster, must(t)(p.Kubectl(t.Context(), p.Cluster(cluster).Kubeconfig, "get", kinds, "-A", "-o", "yaml", "--show-managed-fields")))
	}
	for _, c := range tenants {
		look("the repository of "+c.user, must(t)(c.Git(t.Context(), c.user, filepath.Join(c.GitDir, c.id+".git"), "log", "--all", "-p")))
	}
	all.mu.Lock()
	lines := slices.Collect(maps.Keys(all.seen))
	all.mu.Unlock()
	for _, line := range lines {
		look("a command line", line+" ")
	}
}

// addSession adds what a person signed in with.
func addSession(t *testing.T, all *secrets, home string) {
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
			all.add(session.IDToken)
			all.add(session.RefreshToken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
