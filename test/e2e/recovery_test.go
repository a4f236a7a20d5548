package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/test/env"
	"gitbind.dev/test/scan"
)

const recoveryPage = "docs/recovery.md"

const stopBridges = "kubectl scale -n gitbind-system deployment -l 'app.kubernetes.io/name in (gitbind-gitbridge, gitbind-shard)' --replicas="

// notTyped are commands of the page that no test types, and why.
var notTyped = map[string]string{
	"kubectl rollout restart -n gitbind-system deployment/gitbind-backend   # control plane": "the backend is a process here, which testControlPlaneRestored restarts",
	stopBridges + "0     # control plane":                                                    "the bridge is a process here, which testControlPlaneRestored stops",
	stopBridges + "2     # control plane":                                                    "and begins again",
}

// Flags beside what the page says: no person is there to be asked, the machine may be busy,
// and the konnector runs as a process.
const (
	andYes     = " --yes --timeout=3m"
	andProcess = " --no-deployment --yes"
)

// repository is the folder of the tenant's repository at the embedded host.
func (c *tenant) repository() string { return filepath.Join(c.GitDir, c.id+".git") }

// head is that of a branch in the repository.
func (c *tenant) head(t *testing.T, branch string) string {
	t.Helper()
	return strings.TrimSpace(must(t)(c.Git(t.Context(), c.user, c.repository(), "rev-parse", branch)))
}

// atTheHost does something to the host while it is stopped. Its start also tells those
// who listen what changed behind its back, which takes them up to a minute otherwise.
func (c *tenant) atTheHost(t *testing.T, do func() error) {
	t.Helper()
	ctx := t.Context()
	if err := errors.Join(c.Backend.Stop(ctx), do(), c.Backend.Start(ctx)); err != nil {
		t.Fatal(err)
	}
}

// noticed has those who listen look, and the backend restart.
func (c *tenant) noticed(t *testing.T) {
	t.Helper()
	c.atTheHost(t, func() error { return nil })
}

// copyOf keeps the repository as it is now.
func (c *tenant) copyOf(t *testing.T) (backup string) {
	t.Helper()
	backup = filepath.Join(t.TempDir(), "backup")
	c.atTheHost(t, func() error { return os.CopyFS(backup, os.DirFS(c.repository())) })
	return backup
}

// restore puts the repository back to a backup.
func (c *tenant) restore(t *testing.T, backup string) {
	t.Helper()
	c.atTheHost(t, func() error {
		return errors.Join(os.RemoveAll(c.repository()), os.CopyFS(c.repository(), os.DirFS(backup)))
	})
}

// goesOn waits until both agents follow main, and both sides have these claims as they
// are given.
func (c *tenant) goesOn(t *testing.T, plans map[string]string) {
	t.Helper()
	c.connectionSays(t, c.admin(), "True Connected", "")
	c.clusterSays(t, "Synced", "True", "")
	c.haveBoth(t, plans)
}

func (c *tenant) haveBoth(t *testing.T, plans map[string]string) {
	t.Helper()
	for _, side := range []struct{ what, kubeconfig, namespace string }{{"the app cluster", c.admin(), "team-a"}, {"the control plane", c.Control(), c.claimNamespace()}} {
		for name, plan := range plans {
			eventually(t, name+" has "+plan+" in "+side.what, func(ctx context.Context) (string, bool) {
				out, err := c.Kubectl(ctx, side.kubeconfig, "get", "postgresqlinstance", name, "-n", side.namespace, "-o", "jsonpath={.spec.plan}")
				return out, err == nil && out == plan
			})
		}
	}
}

// holds waits until claims are held for a reason, "None" for those that are not.
func (c *tenant) holds(t *testing.T, reason string, names ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s are held by the reason %q", names, reason), func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstances", "-n", "team-a", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.gitbind.conditions[?(@.type=="Held")].reason}{"\n"}{end}`)
		lines := strings.Split(out, "\n")
		return out, err == nil && !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(lines, name+" "+reason) })
	})
}

func testHostRestored(t *testing.T, c *tenant, commands []*pageCommand) {
	ctx := t.Context()
	push, pushChanges, approveControl, approveApp, keep, bringBack := commands[0], commands[1], commands[2], commands[3], commands[4], commands[5]
	c.order(t, "backup-edited", "backup-deleted")
	edited := func(as, patch string) {
		t.Helper()
		must(t)(c.Kubectl(ctx, c.admin(), "patch", "postgresqlinstance", "backup-edited", "-n", "team-a", "--type=merge", "-p", patch, "--as="+as, "--as-group=system:masters"))
	}
	edited("alice", `{"metadata":{"labels":{"tier":"gold"}},"spec":{"parameters":{"maxConnections":200,"logStatement":"none"}}}`)
	eventually(t, "main has what will be removed", func(ctx context.Context) (string, bool) {
		out, err := c.Git(ctx, c.user, c.repository(), "show", "main:"+claims+"team-a/backup-edited.yaml")
		return fmt.Sprint(out, err), strings.Contains(out, "tier: gold") && strings.Contains(out, "maxConnections: 200")
	})
	backup := c.copyOf(t)
	old := c.head(t, "main")
	edited("alice", `{"metadata":{"labels":{"tier":null}},"spec":{"plan":"`+small+`","parameters":{"maxConnections":null}}}`)
	must(t)(c.Kubectl(ctx, c.admin(), "delete", "postgresqlinstance", "backup-deleted", "-n", "team-a", "--timeout=2m"))
	c.order(t, "backup-new")
	c.until(t, c.control, "the edit is there", c.there("backup-edited", small))
	services := c.services(t)
	const byKubectl, byHand = "changes/postgresqlinstances.anynines.com/team-restored/proposed", "changes/by-hand"
	must(t)(c.Kubectl(ctx, c.admin(), "create", "namespace", "team-restored"))
	must(t)(c.Kubectl(ctx, c.admin(), "label", "namespace", "team-restored", "gitbind.dev/changes=PullRequest"))
	c.apply(t, strings.Replace(manifest("proposed", nano), "team-a", "team-restored", 1))
	c.hasBranch(t, byKubectl)
	c.propose(t, byHand, "By hand", func(dir string) { write(t, dir, claims+"team-a/by-hand.yaml", manifest("by-hand", nano)) })
	const lost = "conflicts/postgresqlinstances.anynines.com/team-a/backup-edited/0123456789"
	must(t)(c.Git(ctx, c.user, c.repository(), "branch", lost, "main"))
	changesAre := func(branches ...string) {
		t.Helper()
		for _, branch := range branches {
			c.hasBranch(t, branch)
			c.shows(t, c.admin(), []string{"review"}, strings.TrimPrefix(branch, "changes/"))
		}
	}

	c.atTheHost(t, func() error {
		// Somebody has fetched the newest there was.
		_, err := c.Git(ctx, c.user, c.clone, "fetch", "--quiet", c.repository(), "+refs/heads/*:refs/remotes/origin/*")
		return errors.Join(err, os.RemoveAll(c.repository()), os.CopyFS(c.repository(), os.DirFS(backup)))
	})
	bothHold := func() (accepted string) {
		t.Helper()
		c.clusterSays(t, "Synced", "False MainRewritten", old)
		message := c.connectionSays(t, c.admin(), "False HistoryReplaced", old)
		return found(t, message, `was at commit ([0-9a-f]+) `)
	}
	with := fill{"ID": c.id, "ACCEPTED": bothHold()}
	// The bridge goes on, and may push status in that very moment.
	eventually(t, "the push is taken", func(context.Context) (string, bool) {
		out, err := c.tries(t, c.place(push), push, with)
		return fmt.Sprint(out, err), err == nil
	})
	c.noticed(t)
	c.goesOn(t, map[string]string{"backup-edited": small, "backup-new": nano})
	c.gone(t, "backup-deleted")
	c.untouched(t, services)
	c.hasBranch(t, byKubectl)
	if out, err := c.tries(t, c.place(pushChanges), pushChanges, with); err == nil {
		t.Errorf("the konnector's older branch is pushed over the newer one:\n%s", out)
	}
	changesAre(byKubectl, byHand)
	c.hasBranch(t, lost)

	c.restore(t, backup)
	bothHold()
	edited("bob", `{"metadata":{"annotations":{"contact":"team-a"}}}`)
	edited("carol", `{"spec":{"parameters":{"logStatement":"ddl"}}}`)
	newest := c.content(t, "backup-edited")
	c.types(t, approveControl, fill{"COMMIT": old + andYes})
	c.types(t, approveApp, fill{"COMMIT": old + andYes})
	c.haveBoth(t, map[string]string{"backup-edited": nano, "backup-new": nano})
	c.holds(t, "FileMissing", "backup-new")
	c.shows(t, c.Control(), []string{"approve"}, "team-a/backup-new (")
	eventually(t, "the claim that was deleted since is back", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", "backup-deleted", "-n", "team-a")
		return out, err == nil
	})
	c.types(t, keep, fill{"PLURAL.GROUP": postgresql, "NAME": "backup-new", "NAMESPACE": "team-a" + andYes})
	c.shows(t, c.admin(), []string{"get"}, "kubectl gitbind resolve "+orders+"backup-edited -n team-a")
	c.types(t, bringBack, fill{"PLURAL.GROUP": postgresql, "NAME": "backup-edited", "NAMESPACE": "team-a" + andYes})
	must(t)(c.Kubectl(ctx, c.admin(), "delete", "postgresqlinstance", "backup-deleted", "-n", "team-a", "--timeout=2m"))
	c.goesOn(t, map[string]string{"backup-edited": small, "backup-new": nano})
	if diff := cmp.Diff(newest, c.content(t, "backup-edited")); diff != "" {
		t.Errorf("of what the claim was before (-) and is (+):\n%s", diff)
	}
	if commit := must(t)(c.Git(ctx, c.user, c.repository(), "log", "-1", "main", "--", claims+"team-a/backup-edited.yaml")); !strings.Contains(commit, "bob@") || !strings.Contains(commit, "carol@") {
		t.Errorf("those who edited it are not the authors of\n%s", commit)
	}
	c.plugin(t, "diff", orders+"backup-edited", "-n", "team-a")
	c.holds(t, "None", "backup-new")
	c.untouched(t, services)
	changesAre(byKubectl)
	must(t)(c.Kubectl(ctx, c.admin(), "delete", "postgresqlinstance", "proposed", "-n", "team-restored", "--timeout=2m"))
	c.pulls(t)
}

// content is what a claim says in the app cluster: its spec, labels and annotations, without
// gitbind's own.
func (c *tenant) content(t *testing.T, name string) (said unstructured.Unstructured) {
	t.Helper()
	out := must(t)(c.Kubectl(t.Context(), c.admin(), "get", "postgresqlinstance", name, "-n", "team-a", "-o", "json"))
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON([]byte(out)); err != nil {
		t.Fatal(err)
	}
	annotations := u.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "gitbind.dev/") })
	said.Object = map[string]any{"spec": u.Object["spec"]}
	said.SetLabels(u.GetLabels())
	said.SetAnnotations(annotations)
	return said
}

// hasBranch waits until the host has a branch.
func (c *tenant) hasBranch(t *testing.T, branch string) {
	t.Helper()
	eventually(t, branch+" is on the host", func(ctx context.Context) (string, bool) {
		out, err := c.Git(ctx, c.user, c.repository(), "branch", "--list", branch)
		return out, err == nil && out != ""
	})
}

// pulls has the clone follow a main that does not descend from its own.
func (c *tenant) pulls(t *testing.T) {
	t.Helper()
	must(t)(c.Git(t.Context(), c.user, c.clone, "fetch", "--quiet"))
	must(t)(c.Git(t.Context(), c.user, c.clone, "reset", "--quiet", "--hard", "origin/main"))
}

// untouched checks that the services are those that were there, with their UIDs.
func (c *tenant) untouched(t *testing.T, before string) {
	t.Helper()
	if now := c.services(t); now != before {
		t.Errorf("the services were\n%sand are\n%s", before, now)
	}
}

func found(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("there is no %s in\n%s", pattern, text)
	}
	return m[1]
}

// bothWait has approve say in both clusters that one and the same main waits, and returns
// its commit. While an agent has seen one of the two branches only, it names the main that
// it accepted before.
func (c *tenant) bothWait(t *testing.T, approve *pageCommand) (commit string) {
	t.Helper()
	approve.ran = true
	waits := regexp.MustCompile(`gitbind approve --main ([0-9a-f]{40})`)
	eventually(t, "both clusters wait for the approval of the same main", func(ctx context.Context) (string, bool) {
		var here, there string
		for kubeconfig, waiting := range map[string]*string{c.admin(): &here, c.Control(): &there} {
			out, err := c.shell(kubeconfig).run(ctx, approve.text)
			m := waits.FindStringSubmatch(out)
			if err != nil || m == nil {
				return fmt.Sprint(out, err), false
			}
			*waiting = m[1]
		}
		commit = here
		return fmt.Sprintf("the app cluster waits for %s, the control plane for %s", here, there), here == there
	})
	return commit
}

func testRewritten(t *testing.T, c *tenant, commands []*pageCommand) {
	approve, approveMain := commands[0], commands[1]
	old := c.head(t, "main")
	c.order(t, "rewritten")
	services := c.services(t)
	c.atTheHost(t, func() error {
		_, err := c.Git(t.Context(), c.user, c.repository(), "update-ref", "refs/heads/main", old)
		return err
	})
	commit := c.bothWait(t, approve)
	for _, kubeconfig := range []string{c.Control(), c.admin()} {
		c.typesIn(t, kubeconfig, approveMain, fill{"COMMIT": commit + andYes})
	}
	c.holds(t, "FileMissing", "rewritten")
	c.untouched(t, services)
	c.plugin(t, "resolve", orders+"rewritten", "-n", "team-a", "--take", "keep", "--yes", "--timeout=3m")
	c.goesOn(t, map[string]string{"rewritten": nano})
	c.pulls(t)
}

// mirrorCommand is how operating.md has a repository backed up while the host works.
func mirrorCommand(t *testing.T) *pageCommand {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	return &pageCommand{text: found(t, string(text), `(?m)^ +(git .* clone --mirror .*)$`)}
}

func testRepositoryLost(t *testing.T, c *tenant, commands []*pageCommand) {
	patch, push, approve, approveControl, approveApp, keepAll := commands[0], commands[1], commands[2], commands[3], commands[4], commands[5]
	services := c.services(t)
	with := fill{"ID": c.id}
	lose := func() {
		t.Helper()
		c.atTheHost(t, func() error { return os.RemoveAll(c.repository()) })
		c.clusterSays(t, "Ready", "False RepositoryGone", "restore it from a backup")
		c.clusterSays(t, "Synced", "False RepositoryNotFound", "")
		c.types(t, patch, with)
	}

	c.typesIn(t, c.Control(), mirrorCommand(t), with)
	defer func() {
		if err := os.RemoveAll(filepath.Join(c.clone, c.id+".git")); err != nil {
			t.Error(err)
		}
	}()
	main := c.head(t, "main")
	lose()
	eventually(t, "the push is taken", func(context.Context) (string, bool) {
		out, err := c.tries(t, c.place(push), push, with)
		return fmt.Sprint(out, err), err == nil
	})
	c.noticed(t)
	c.goesOn(t, nil)
	if now := c.head(t, "main"); now != main {
		t.Errorf("main was at %s, and is at %s", main, now)
	}
	c.untouched(t, services)

	lose()
	commit := c.bothWait(t, approve)
	c.types(t, approveControl, fill{"COMMIT": commit + andYes})
	c.types(t, approveApp, fill{"COMMIT": commit + andYes})
	names := strings.Fields(must(t)(c.Kubectl(t.Context(), c.admin(), "get", "postgresqlinstances", "-n", "team-a", "-o", "jsonpath={.items[*].metadata.name}")))
	c.holds(t, "FileMissing", names...)
	c.types(t, keepAll, fill{"PLURAL.GROUP": postgresql})
	c.goesOn(t, nil)
	c.holds(t, "None", names...)
	c.untouched(t, services)
	if files := must(t)(c.Git(t.Context(), c.user, c.repository(), "ls-tree", "-r", "--name-only", "main", claims)); strings.Count(files, "\n") != len(names) {
		t.Errorf("of the claims %s there are the files\n%s", names, files)
	}
	c.pulls(t)
}

func testAppClusterRestored(t *testing.T, c *tenant, commands []*pageCommand) {
	ctx := t.Context()
	app := c.Cluster(c.cluster)
	c.order(t, "etcd-edited", "etcd-deleted")
	snapshot, err := app.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.edit(t, "etcd-edited", small)
	c.until(t, c.control, "the edit is there", c.there("etcd-edited", small))
	must(t)(c.Kubectl(ctx, c.admin(), "delete", "postgresqlinstance", "etcd-deleted", "-n", "team-a", "--timeout=2m"))
	c.order(t, "etcd-new")
	c.plugin(t, "rotate")
	services, main := c.services(t), c.head(t, "main")
	konnector := c.Konnector(c.cluster)
	if err := errors.Join(konnector.Stop(ctx), app.Reset(ctx, snapshot)); err != nil {
		t.Fatal(err)
	}
	begin(t, konnector)
	c.connectionSays(t, c.admin(), "False CredentialRefused", "kubectl gitbind connect")
	c.types(t, commands[0], fill{"URL": c.BackendURL + andProcess})
	c.goesOn(t, map[string]string{"etcd-edited": small, "etcd-new": nano})
	c.gone(t, "etcd-deleted")
	c.untouched(t, services)
	if changed := must(t)(c.Git(ctx, c.user, c.repository(), "log", "-p", main+"..main", "--", claims)); changed != "" {
		t.Errorf("what was older reached main:\n%s", changed)
	}
}

// testControlPlaneRestored restores it from a real snapshot, beneath a bridge that goes on
// as far as it can.
func testControlPlaneRestored(t *testing.T, c *tenant, commands []*pageCommand) {
	ctx := t.Context()
	control := c.Cluster(env.Control)
	endKeys, endAll, endBridges, owners, shares, reconnect := commands[1], commands[2], commands[3], commands[4], commands[5], commands[8]
	approve, recreate := commands[9], commands[10]
	c.order(t, "control-edited", "control-deleted")
	share := []string{"view", "--user", env.Bob, "--yes"}
	c.plugin(t, append([]string{"share"}, share...)...)
	snapshot, err := control.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stop := c.supervise(t)
	defer func() { stop() }()
	c.watch(t)
	keys := func() string {
		return must(t)(c.Kubectl(ctx, c.Control(), "get", "clusterbinding", c.id, "-o", "jsonpath={.spec.encryption}"))
	}
	registered := keys()
	secrets := scan.New()
	bridges := func() string { return c.secret(t, secrets, c.Control(), "gb-"+c.id, "gitbind-bridge")["password"] }
	stolen, bridge := c.credential(t, secrets)["password"], bridges()
	c.plugin(t, "rotate")
	if c.counts(t, "konnector", stolen, c.id) {
		t.Error("a credential counts that was taken back")
	}
	c.plugin(t, append([]string{"unshare"}, share...)...)
	c.edit(t, "control-edited", small)
	must(t)(c.Kubectl(ctx, c.admin(), "delete", "postgresqlinstance", "control-deleted", "-n", "team-a", "--timeout=2m"))
	c.until(t, c.control, "the edit is there", c.there("control-edited", small))
	services := c.services(t)
	c.order(t, "control-new")
	if err := control.Restore(ctx, snapshot); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := c.Bridge.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	c.types(t, endKeys, nil)
	if left := keys(); left != "" {
		t.Errorf("registered is still %s", left)
	}
	c.types(t, endAll, nil)
	c.types(t, endBridges, nil)
	if out := c.types(t, owners, nil); !strings.Contains(out, c.id) || !strings.Contains(out, c.user) {
		t.Errorf("the owner of %s is not in\n%s", c.id, out)
	}
	if out := c.types(t, shares, nil); !strings.Contains(out, env.Bob) {
		t.Errorf("what was shared with %s when the snapshot was taken is not in\n%s", env.Bob, out)
	}
	c.noticed(t)
	stop = c.supervise(t) // which begins the bridge again
	c.connectionSays(t, c.admin(), "False CredentialRefused", "kubectl gitbind connect")
	c.types(t, reconnect, fill{"URL": c.BackendURL + andProcess})
	eventually(t, "the bridge has another credential", func(context.Context) (string, bool) { return "", bridges() != bridge })
	eventually(t, "the cluster's keys are registered", func(context.Context) (string, bool) { now := keys(); return now, now == registered && now != "" })
	for user, password := range map[string]string{"konnector": stolen, "bridge": bridge} {
		if c.counts(t, user, password, c.id) {
			t.Errorf("a credential of the %s from before the snapshot counts", user)
		}
	}
	c.typesUntil(t, c.place(approve), approve, "lost services:", "team-a/control-new (")
	c.haveBoth(t, map[string]string{"control-edited": small})
	c.gone(t, "control-deleted")
	c.untouched(t, services)
	c.types(t, recreate, fill{"ID": c.id, "PATH": claims + "team-a/control-new.yaml" + andYes})
	c.goesOn(t, map[string]string{"control-new": nano})
}

// supervise starts the bridge again when it ends, also at its start, as Kubernetes does, until
// it is told to stop. An API server that has just begun may know of no rights yet.
func (c *tenant) supervise(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.Bridge.Done():
				t.Log("the bridge ended")
				if err := c.Bridge.Start(ctx); err != nil && ctx.Err() == nil {
					t.Logf("start the bridge again: %v", err)
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
				}
			}
		}
	})
	return func() { cancel(); working.Wait() }
}

// testServicesMissing loses all services at once.
func testServicesMissing(t *testing.T, c *tenant, commands []*pageCommand) {
	approve, recreate := commands[0], commands[1]
	must(t)(c.Kubectl(t.Context(), c.Control(), "delete", "postgresqlinstances", "--all", "-n", c.claimNamespace()))
	c.clusterSays(t, "Synced", "False ControlPlaneLost", "")
	if left := c.services(t); left != "" {
		t.Errorf("there are again\n%s", left)
	}
	c.typesUntil(t, c.place(approve), approve, "services: ")
	c.types(t, recreate, fill{"ID": c.id, "PATH": claims + "team-a" + andYes})
	c.goesOn(t, map[string]string{"bystander-1": nano, "bystander-4": nano})
}
