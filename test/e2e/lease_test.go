package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
	"gitbind.dev/test/proxy"
)

// leaseArgs are shorter than the defaults, for a test that waits until a Lease
// runs out, and long enough for a machine on which an answer takes seconds.
var leaseArgs = []string{"--lease-duration=8s", "--lease-renew=7s", "--lease-retry=500ms"}

// TestLeases runs two of each agent on one platform. What is ordered has no
// delivery behind it: that would only take time.
func TestLeases(t *testing.T) {
	t.Parallel()
	p := start(t, platform.Options{Plain: true, Network: true, Replicas: 2, AgentArgs: leaseArgs})
	c := connect(t, p, env.Alice, env.App)
	t.Run("a standby is ready and says that it stands by", func(t *testing.T) { testStandby(t, c) })
	t.Run("a clean end hands over without waiting for the lease to run out", func(t *testing.T) { testHandOver(t, c) })
	t.Run("D11_a lease is lost while working and the old leader writes no more", func(t *testing.T) { testLeaseLost(t, c) })
	t.Run("D28_an agent is stopped and replaced and continued", func(t *testing.T) { testStopped(t, c) })
}

// agents are both agents' processes and the Lease that they share.
type agents struct {
	*tenant
	cluster, lease string
	all            []*env.Process
}

func (c *tenant) bothAgents() map[string]agents {
	return map[string]agents{
		"konnector": {c, c.cluster, "gitbind-konnector", c.Konnectors(c.cluster)},
		"gitbridge": {c, env.Control, "gitbind-gitbridge", c.Bridges},
	}
}

// holder is the name of the process that holds the Lease, "" if nobody does.
func (a agents) holder(ctx context.Context) (string, error) {
	client, err := kubernetes.NewForConfig(a.Cluster(a.cluster).Config())
	if err != nil {
		return "", err
	}
	lease, err := client.CoordinationV1().Leases("gitbind-system").Get(ctx, a.lease, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// leader waits until one of the agents works, and gives it and the other.
func (a agents) leader(t *testing.T) (works, standsBy *env.Process) {
	t.Helper()
	for _, p := range a.all {
		revive(t, p)
	}
	eventually(t, "one of the agents holds "+a.lease, func(ctx context.Context) (string, bool) {
		holder, err := a.holder(ctx)
		for i, p := range a.all {
			if p.Name == holder {
				works, standsBy = p, a.all[1-i]
			}
		}
		return fmt.Sprint(holder, err), works != nil
	})
	return works, standsBy
}

// takenBy waits until one of the agents holds the Lease.
func (a agents) takenBy(t *testing.T, p *env.Process) {
	t.Helper()
	eventually(t, p.Name+" works", func(ctx context.Context) (string, bool) {
		holder, err := a.holder(ctx)
		return fmt.Sprint(holder, err), holder == p.Name
	})
}

// revive starts an agent again that has ended by itself, as its cluster would:
// on a busy machine it may not come to renew its Lease.
func revive(t *testing.T, p *env.Process) {
	t.Helper()
	select {
	case <-p.Done():
		t.Logf("%s had ended with %d, and is started again", p.Name, p.ExitCode())
		if err := p.Start(t.Context()); err != nil {
			t.Error(err)
		}
	default:
	}
}

// keep revives an agent until it is told to end.
func keep(t *testing.T, p *env.Process) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var kept sync.WaitGroup
	kept.Go(func() {
		for ctx.Err() == nil && !t.Failed() {
			select {
			case <-p.Done():
				revive(t, p)
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		kept.Wait()
	}
}

// ended waits until a process has ended by itself, with these words.
func ended(t *testing.T, p *env.Process, words ...string) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("%s has lost its lease and goes on", p.Name)
	}
	if p.ExitCode() == 0 {
		t.Errorf("%s ended as if all were well", p.Name)
	}
	logged(t, p, words...)
}

func logged(t *testing.T, p *env.Process, words ...string) {
	t.Helper()
	for _, w := range words {
		eventually(t, fmt.Sprintf("%s says %q", p.Name, w), func(context.Context) (string, bool) {
			log, err := os.ReadFile(p.LogPath)
			return string(log), err == nil && strings.Contains(string(log), w)
		})
	}
}

func begin(t *testing.T, p *env.Process) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testStandby(t *testing.T, c *tenant) {
	c.apply(t, manifest("first", nano))
	c.until(t, c.control, "the claim is there", c.there("first", nano))
	for _, a := range c.bothAgents() {
		works, standsBy := a.leader(t)
		for _, p := range []*env.Process{works, standsBy} {
			eventually(t, p.Name+" is ready", func(ctx context.Context) (string, bool) {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.ReadyURL("/readyz"), nil)
				if err != nil {
					return err.Error(), false
				}
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					return err.Error(), false
				}
				_ = resp.Body.Close()
				return resp.Status, resp.StatusCode == http.StatusOK
			})
		}
		// One that was slow to take the Lease says that it was taken over.
		logged(t, works, "Working: the lease ")
		logged(t, standsBy, "Standing by: another process works")
	}
}

// testHandOver stops the one that works. It gives the Lease back before it ends,
// so the other one need only look; how often it looks is a rule for the
// defaults (TestOptions of the lease).
func testHandOver(t *testing.T, c *tenant) {
	for name, a := range c.bothAgents() {
		works, standsBy := a.leader(t)
		end := keep(t, standsBy)
		if err := works.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if holder, err := a.holder(t.Context()); err != nil || holder == works.Name {
			t.Errorf("%s has ended and still holds the lease (%v)", works.Name, err)
		}
		a.takenBy(t, standsBy)
		took := time.Since(began)
		claim := "handed-over-" + name
		c.apply(t, manifest(claim, nano))
		c.until(t, c.control, "a claim passes", c.there(claim, nano))
		t.Logf("%s works %s after %s has ended, and a claim passed after %s", standsBy.Name, took.Round(time.Millisecond), works.Name, time.Since(began).Round(time.Millisecond))
		begin(t, works)
		end()
	}
}

// testLeaseLost cuts the agent that works off from its API server, and from
// nothing else. While it can still reach Git, another one takes over.
func testLeaseLost(t *testing.T, c *tenant) {
	for name, a := range c.bothAgents() {
		works, standsBy := a.leader(t)
		end := keep(t, standsBy)
		link := platform.Link{Client: works.Name, Server: "api"}
		if err := c.Network.Set(link, proxy.Silent); err != nil {
			t.Fatal(err)
		}
		claim := "while-cut-" + name
		c.push(t, "Order", func(dir string) { write(t, dir, claims+"team-a/"+claim+".yaml", manifest(claim, nano)) })
		ended(t, works, "was not renewed for", "so this process ends")
		if err := c.Network.Set(link, proxy.Open); err != nil {
			t.Fatal(err)
		}
		// Not before the other one has it: it would go on with the Lease, which
		// it gave up before that ran out.
		a.takenBy(t, standsBy)
		begin(t, works)
		c.until(t, c.control, "the claim is on the control plane", c.there(claim, nano))
		c.until(t, c.app, "the claim is in the app cluster", has(claim, nano))
		end()
	}
}

// testStopped stops the agent that works in the midst of a batch, has another
// take over and do the work, and lets the first one go on.
func testStopped(t *testing.T, c *tenant) {
	const many = 20
	for name, a := range c.bothAgents() {
		works, standsBy := a.leader(t)
		end := keep(t, standsBy)
		manifests := make([]string, many)
		for i := range manifests {
			manifests[i] = manifest(fmt.Sprintf("stopped-%s-%d", name, i), nano)
		}
		file := filepath.Join(t.TempDir(), "many.yaml")
		write(t, filepath.Dir(file), "many.yaml", strings.Join(manifests, "---\n"))
		applied := make(chan error, 1)
		go func() {
			_, err := c.Kubectl(t.Context(), c.admin(), "apply", "-f", file)
			applied <- err
		}()
		c.until(t, c.app, "the batch has begun", has(fmt.Sprintf("stopped-%s-%d", name, many/4), nano))
		if err := works.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := <-applied; err != nil {
			t.Fatal(err)
		}
		a.takenBy(t, standsBy)
		for i := range many {
			c.until(t, c.control, "each claim is on the control plane", c.there(fmt.Sprintf("stopped-%s-%d", name, i), nano))
		}
		// A change that the stopped one knows nothing of.
		c.apply(t, strings.Replace(manifests[0], nano, small, 1))
		c.until(t, c.control, "the change is there", c.there(fmt.Sprintf("stopped-%s-0", name), small))
		before, commits := c.settled(t, c.hasBases)
		if err := works.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		// Whether it has seen who works now depends on where it was stopped.
		ended(t, works, "so this process ends")
		begin(t, works)
		for object, version := range c.versions(t) {
			if before[object] != version {
				t.Errorf("%s was written by the one that was stopped: resourceVersion %s → %s", object, before[object], version)
			}
		}
		if now := c.commits(t); now != commits {
			t.Errorf("commits were made by the one that was stopped:\n%s\n→\n%s", commits, now)
		}
		c.noDoubles(t, name)
		end()
	}
}

// settled waits until main is answered, each claim is as more wants it, and nobody writes
// any more, and gives what there is then.
func (c *tenant) settled(t *testing.T, more func(context.Context) (string, bool)) (versions map[string]string, commits string) {
	t.Helper()
	var since time.Time
	eventually(t, "all is answered, and stays as it is", func(ctx context.Context) (string, bool) {
		answer, ok := c.isAnswered(ctx)
		if ok {
			answer, ok = more(ctx)
		}
		if !ok {
			since = time.Time{}
			return answer, false
		}
		v, h := c.versions(t), c.commits(t)
		if since.IsZero() || h != commits || !maps.Equal(v, versions) {
			versions, commits, since = v, h, time.Now()
		}
		return answer, time.Since(since) > 2*time.Second
	})
	return versions, commits
}

// isAnswered reports whether status answers main's head, and each claim in the app cluster
// says that it was applied as it is.
func (c *tenant) isAnswered(ctx context.Context) (string, bool) {
	out, ok := c.eachClaim(ctx, `{.status.gitbind.conditions[?(@.type=="Applied")].status},{.status.gitbind.conditions[?(@.type=="Applied")].observedGeneration},{.metadata.generation}`, func(values string) bool {
		f := strings.Split(values, ",")
		return len(f) == 3 && f[0] == "True" && f[1] == f[2]
	})
	if !ok {
		return out, false
	}
	head, err := c.Git(ctx, c.user, c.repository(), "rev-parse", "main")
	if err != nil {
		return head, false
	}
	observed, err := c.Git(ctx, c.user, c.repository(), "show", "status:observed.yaml")
	return out + observed, err == nil && strings.Contains(observed, strings.TrimSpace(head))
}

// hasBases reports whether each claim has its newest version as its base.
func (c *tenant) hasBases(ctx context.Context) (string, bool) {
	return c.eachClaim(ctx, `{.metadata.generation},{.metadata.annotations.gitbind\.dev/base}`, func(values string) bool {
		generation, base, _ := strings.Cut(values, ",")
		return strings.Contains(base, `"generation":`+generation+`,`)
	})
}

// eachClaim reports whether some fields of each claim in the app cluster are as they should
// be, and gives those of the first one where they are not.
func (c *tenant) eachClaim(ctx context.Context, fields string, right func(values string) bool) (string, bool) {
	out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstances", "-n", "team-a", "-o", `jsonpath={range .items[*]}{.metadata.name}=`+fields+`{"\n"}{end}`)
	if err != nil {
		return out, false
	}
	for line := range strings.Lines(out) {
		if _, values, _ := strings.Cut(strings.TrimSpace(line), "="); !right(values) {
			return line, false
		}
	}
	return out, true
}

// commits are the heads of both branches.
func (c *tenant) commits(t *testing.T) string {
	t.Helper()
	return must(t)(c.Git(t.Context(), c.user, filepath.Join(c.GitDir, c.id+".git"), "rev-parse", "main", "status"))
}

// noDoubles sees that no claim of a batch was committed twice with the same
// content.
func (c *tenant) noDoubles(t *testing.T, name string) {
	t.Helper()
	out := must(t)(c.Git(t.Context(), c.user, filepath.Join(c.GitDir, c.id+".git"), "log", "--format=%h", "--raw", "--no-abbrev", "main", "--", claims+"team-a/stopped-"+name+"-*"))
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 6 || !strings.HasPrefix(line, ":") {
			continue
		}
		if version := f[5] + " " + f[3]; seen[version] {
			t.Errorf("%s was committed twice:\n%s", version, out)
		} else {
			seen[version] = true
		}
	}
	if len(seen) == 0 {
		t.Errorf("no commits at all: %s", out)
	}
}
