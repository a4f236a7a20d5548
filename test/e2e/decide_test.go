package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

const rebuilt = "rebuilt"

// TestDecisions is what a person decides with the plugin, and what the agents
// make of it.
func TestDecisions(t *testing.T) {
	t.Parallel()
	p := start(t, platform.Options{Plain: true, AppClusters: []string{env.App, rebuilt}})
	c := connect(t, p, env.Alice, env.App)
	// The bridge counts what was removed in Git alone, too.
	c.mayRemove(t, 8)
	// Otherwise two removals would be half of what there is.
	c.order(t, "bystander-1", "bystander-2", "bystander-3", "bystander-4")

	c.execs(t)
	recovery := readPage(t, recoveryPage)
	play := func(heading string, commands int, test func(*testing.T, *tenant, []*pageCommand)) func(*testing.T) {
		return func(t *testing.T) { test(t, c, recovery.section(t, heading, commands)) }
	}
	t.Run("what waits is told in both clusters", play("When something is lost", 2, testNothingWaits))
	t.Run("D21_the Git host is restored from an older backup", play("The Git host was restored from an older backup", 6, testHostRestored))
	t.Run("D6_main is put back and approved", play("main was rewritten", 2, testRewritten))
	t.Run("D6_the repository is lost", play("The repository is lost", 6, testRepositoryLost))
	t.Run("D3_the app cluster is restored", play("The app cluster was restored", 1, testAppClusterRestored))
	t.Run("D5_the control plane is restored", func(t *testing.T) {
		testControlPlaneRestored(t, c, slices.Concat(recovery.section(t, "The control plane was restored", 9), recovery.section(t, "Services are missing on the control plane", 2)))
	})
	c.watch(t)
	t.Run("D5_all services vanish and are made again when a person says so", play("Services are missing on the control plane", 2, testServicesMissing))
	t.Run("many deletes are held until they are approved once", play("Many claims are removed at once", 2, testManyDeletes))
	t.Run("many removed files are held until they are approved on both sides", play("Many claims are removed at once", 2, testManyFiles))
	t.Run("a version that lost a conflict is brought back", func(t *testing.T) { testBringBack(t, c) })
	t.Run("an edited claim whose file went is kept or deleted", func(t *testing.T) { testChangedAndRemoved(t, c) })
	t.Run("a claim goes back to what it was and a deleted one comes back", func(t *testing.T) { testGoBack(t, c) })
	t.Run("the repository is a folder of a monorepo", func(t *testing.T) { testMonorepo(t, c) })
	t.Run("a decision on what has changed since does nothing", func(t *testing.T) { testStaleDecision(t, c) })
	t.Run("L5_a copy of the app cluster is torn down beside it", play("A recovery drill: two live copies of an app cluster", 1, testCopied))
	t.Run("D4_a rebuilt app cluster takes its old place", play("The app cluster is lost", 3, testReclaim))
	t.Run("each command of the page was run", func(t *testing.T) { recovery.allRan(t, notTyped) })
}

// mayRemove says how many removals the bridge lets pass.
func (c *tenant) mayRemove(t *testing.T, most int) {
	t.Helper()
	must(t)(c.Kubectl(t.Context(), c.Control(), "patch", "clusterbinding", c.id, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"removals":{"most":%d}}}`, most)))
}

// plugin runs the plugin as the tenant's owner.
func (c *tenant) plugin(t *testing.T, args ...string) string {
	t.Helper()
	return must(t)(c.Plugin(t.Context(), c.user, c.admin(), args...))
}

// shows asks the plugin until it prints all of these.
func (c *tenant) shows(t *testing.T, kubeconfig string, args []string, want ...string) string {
	t.Helper()
	return eventually(t, fmt.Sprintf("kubectl gitbind %s prints %q", strings.Join(args, " "), want), func(ctx context.Context) (string, bool) {
		out, err := c.Plugin(ctx, c.user, kubeconfig, args...)
		if err != nil {
			return err.Error(), false
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				return out, false
			}
		}
		return out, true
	})
}

func (c *tenant) edit(t *testing.T, name, plan string) {
	t.Helper()
	must(t)(c.Kubectl(t.Context(), c.admin(), "patch", "postgresqlinstance", name, "-n", "team-a", "--type=merge", "-p", `{"spec":{"plan":"`+plan+`"}}`))
}

// order makes claims, and waits until they are on both sides.
func (c *tenant) order(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		c.apply(t, manifest(name, nano))
	}
	for _, name := range names {
		c.until(t, c.control, name+" is there", c.there(name, nano))
		eventually(t, name+" is in step", func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", name, "-n", "team-a", "-o", `jsonpath={.status.gitbind.conditions[?(@.type=="Applied")].status}`)
			return out, err == nil && out == "True"
		})
	}
}

// bothChange has both sides edit a claim while the konnector is away.
func (c *tenant) bothChange(t *testing.T, name string, change func(dir string)) {
	t.Helper()
	konnector := c.Konnector(c.cluster)
	if err := konnector.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.edit(t, name, "cluster-plan")
	c.push(t, "Change "+name, change)
	begin(t, konnector)
}

const orders = "postgresqlinstances.anynines.com/"

func testBringBack(t *testing.T, c *tenant) {
	c.order(t, "torn")
	c.bothChange(t, "torn", func(dir string) { write(t, dir, claims+"team-a/torn.yaml", manifest("torn", "file-plan")) })
	c.until(t, c.app, "the file has won", has("torn", "file-plan"))
	out := c.shows(t, c.admin(), []string{"get"}, "Waiting for a decision:", "kubectl gitbind resolve "+orders+"torn -n team-a")
	t.Logf("kubectl gitbind get prints\n%s", out)
	out = c.plugin(t, "resolve", orders+"torn", "-n", "team-a", "--dry-run")
	t.Logf("kubectl gitbind resolve prints\n%s", out)
	if !strings.Contains(out, "lost a conflict") || !strings.Contains(out, "origin/conflicts/") {
		t.Errorf("it does not tell of the conflict:\n%s", out)
	}
	out = c.plugin(t, "resolve", "postgresqlinstance/torn", "-n", "team-a", "--take", "cluster", "--yes", "--timeout=3m")
	if !strings.Contains(out, "done: cluster and Git agree") {
		t.Errorf("it says\n%s", out)
	}
	c.until(t, c.app, "the version that lost is back", has("torn", "cluster-plan"))
	c.until(t, c.control, "and is on the control plane", c.there("torn", "cluster-plan"))
	c.file(t, "torn", "plan: cluster-plan")
}

// file checks what main says of a claim.
func (c *tenant) file(t *testing.T, name, want string) {
	t.Helper()
	ctx := t.Context()
	must(t)(c.Git(ctx, c.user, c.clone, "pull", "--quiet", "--rebase"))
	out, _ := c.Git(ctx, c.user, c.clone, "show", "HEAD:"+claims+"team-a/"+name+".yaml")
	if !strings.Contains(out, want) {
		t.Errorf("main says of %s\n%s\nwant %q", name, out, want)
	}
}

func testChangedAndRemoved(t *testing.T, c *tenant) {
	c.order(t, "kept", "dropped")
	for _, name := range []string{"kept", "dropped"} {
		c.bothChange(t, name, func(dir string) {
			must(t)(c.Git(t.Context(), c.user, dir, "rm", "--quiet", claims+"team-a/"+name+".yaml"))
		})
		c.shows(t, c.admin(), []string{"resolve", orders + name, "-n", "team-a", "--dry-run"}, "is held: ChangedAndRemoved", "+  plan: cluster-plan", "main has no claim at")
	}
	out := c.plugin(t, "resolve", orders+"kept", "-n", "team-a", "--take", "keep", "--yes", "--timeout=3m")
	if !strings.Contains(out, "done: cluster and Git agree") {
		t.Errorf("keep: it says\n%s", out)
	}
	c.file(t, "kept", "plan: cluster-plan")
	c.plugin(t, "resolve", orders+"dropped", "-n", "team-a", "--take", "delete", "--yes", "--timeout=3m")
	c.until(t, c.app, "the claim is gone", func(e platform.Event) bool { return e.Type == watch.Deleted && e.Object.GetName() == "dropped" })
}

func testStaleDecision(t *testing.T, c *tenant) {
	c.order(t, "moving")
	c.bothChange(t, "moving", func(dir string) {
		must(t)(c.Git(t.Context(), c.user, dir, "rm", "--quiet", claims+"team-a/moving.yaml"))
	})
	show := []string{"resolve", orders + "moving", "-n", "team-a", "-o", "json"}
	out := c.shows(t, c.admin(), show, `"token"`)
	token := regexp.MustCompile(`"token": "([^"]+)"`).FindStringSubmatch(out)[1]
	c.edit(t, "moving", "edited-again")
	eventually(t, "the token is another one", func(ctx context.Context) (string, bool) {
		out, err := c.Plugin(ctx, c.user, c.admin(), show...)
		return out, err == nil && strings.Contains(out, `"token"`) && !strings.Contains(out, token)
	})
	must(t)(c.Kubectl(t.Context(), c.admin(), "annotate", "postgresqlinstance", "moving", "-n", "team-a", "gitbind.dev/resolve=delete."+token))
	c.shows(t, c.admin(), []string{"get"}, "Nothing was done for the decision")
	if out := must(t)(c.Kubectl(t.Context(), c.admin(), "get", "postgresqlinstance", "moving", "-n", "team-a", "-o", "jsonpath={.metadata.deletionTimestamp}")); out != "" {
		t.Fatal("the claim is being deleted by a decision on what it was before")
	}
	c.plugin(t, "resolve", orders+"moving", "-n", "team-a", "--take", "keep", "--yes", "--timeout=3m")
}

// commit takes the commit from the command that the agents propose.
func commitIn(t *testing.T, out string) string {
	t.Helper()
	m := regexp.MustCompile(`--removals ([0-9a-f]{40})`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no commit is named in\n%s", out)
	}
	return m[1]
}

func (c *tenant) gone(t *testing.T, names ...string) {
	t.Helper()
	for _, side := range []struct{ what, kubeconfig, namespace string }{{"the app cluster", c.admin(), "team-a"}, {"the control plane", c.Control(), c.claimNamespace()}} {
		eventually(t, fmt.Sprintf("%v are gone from %s", names, side.what), func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, side.kubeconfig, append([]string{"get", "postgresqlinstance", "-n", side.namespace, "--ignore-not-found", "-o", "name"}, names...)...)
			return fmt.Sprint(out, err), err == nil && out == ""
		})
	}
}

func testNothingWaits(t *testing.T, c *tenant, commands []*pageCommand) {
	get, approve := commands[0], commands[1]
	c.typesUntil(t, c.admin(), get, "bystander-1")
	for _, kubeconfig := range []string{c.admin(), c.Control()} {
		c.typesUntil(t, kubeconfig, approve, "Nothing waits")
	}
}

func testManyDeletes(t *testing.T, c *tenant, commands []*pageCommand) {
	approve, approveRemovals := commands[0], commands[1]
	names := []string{"many-1", "many-2", "many-3", "many-4", "many-5"}
	c.order(t, names...)
	must(t)(c.Kubectl(t.Context(), c.admin(), append([]string{"delete", "postgresqlinstance", "-n", "team-a", "--wait=false"}, names...)...))
	// The first of them are plain deletes: nobody knows yet that more will come.
	out := c.typesUntil(t, c.admin(), approve, "team-a/many-5 (", "it is being deleted here")
	t.Logf("kubectl gitbind approve prints\n%s", out)
	commit := commitIn(t, out)
	for _, name := range regexp.MustCompile(`many-\d`).FindAllString(out, -1) {
		must(t)(c.Kubectl(t.Context(), c.Control(), "get", "postgresqlinstance", name, "-n", c.claimNamespace()))
	}
	out = c.types(t, approveRemovals, fill{"COMMIT": commit + andYes})
	if !strings.Contains(out, "DELETED") || !strings.Contains(out, "approved, and acted on") {
		t.Errorf("it says\n%s", out)
	}
	// Nobody approves anything on the control plane.
	c.gone(t, names...)
	c.shows(t, c.Control(), []string{"approve"}, "Nothing waits")
}

func testManyFiles(t *testing.T, c *tenant, commands []*pageCommand) {
	approve, approveRemovals := commands[0], commands[1]
	names := []string{"file-1", "file-2", "file-3", "file-4", "file-5"}
	// How many went before, the bridge need not know: a file that was soon there
	// again may never have been away for it.
	c.mayRemove(t, len(names)-1)
	defer c.mayRemove(t, 8)
	c.order(t, names...)
	c.push(t, "Remove five", func(dir string) {
		for _, name := range names {
			must(t)(c.Git(t.Context(), c.user, dir, "rm", "--quiet", filepath.Join(claims, "team-a", name+".yaml")))
		}
	})
	app := c.typesUntil(t, c.admin(), approve, "team-a/file-1 (", "team-a/file-5 (", "its file is gone from main")
	control := c.typesUntil(t, c.Control(), approve, "team-a/file-1 (", "team-a/file-5 (")
	t.Logf("in the app cluster\n%s\non the control plane\n%s", app, control)
	for _, side := range []struct{ kubeconfig, out string }{{c.admin(), app}, {c.Control(), control}} {
		out := c.typesIn(t, side.kubeconfig, approveRemovals, fill{"COMMIT": commitIn(t, side.out) + andYes})
		if !strings.Contains(out, "approved, and acted on") {
			t.Errorf("it says\n%s", out)
		}
	}
	c.gone(t, names...)
}

func testReclaim(t *testing.T, c *tenant, commands []*pageCommand) {
	ctx := t.Context()
	reclaim, bind, get := commands[0], commands[1], commands[2]
	c.order(t, "survivor")
	before := must(t)(c.Kubectl(ctx, c.Control(), "get", "postgresqlinstance", "survivor", "-n", c.claimNamespace(), "-o", "jsonpath={.metadata.uid}"))
	if err := c.Konnector(c.cluster).Stop(ctx); err != nil {
		t.Fatal(err)
	}
	// One that could not give back its Lease is missed once that has run out.
	eventually(t, "get says that nobody works", func(ctx context.Context) (string, bool) {
		out, err := c.Plugin(ctx, c.user, c.admin(), "get")
		return out, err == nil && (strings.Contains(out, "konnector stopped") || strings.Contains(out, "konnector not seen"))
	})
	kubeconfig := c.Cluster(rebuilt).Kubeconfig
	connect := []string{"connect", c.BackendURL, "--no-deployment", "--no-wait", "--yes", "--reclaim", env.App}
	if out, err := c.Plugin(ctx, c.user, kubeconfig, connect...); err == nil || !strings.Contains(out, "--force") {
		t.Fatalf("it reclaims from a konnector that was there a moment ago: %v\n%s", err, out)
	}
	out := c.typesIn(t, kubeconfig, reclaim, fill{"URL": c.BackendURL + andProcess + " --no-wait", "NAME-OR-ID": env.App + " --force"})
	if _, err := c.StartKonnector(ctx, rebuilt); err != nil {
		t.Fatal(err)
	}
	c.typesIn(t, kubeconfig, bind, fill{"NAME...": found(t, out, `(?m)^ +kubectl gitbind bind (.+)$`)})
	c.typesUntil(t, kubeconfig, get, "team-a")
	must(t)(c.Kubectl(ctx, kubeconfig, "create", "namespace", "team-a"))
	eventually(t, "the claim is in the new cluster, and ready there is its status", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, kubeconfig, "get", "postgresqlinstance", "survivor", "-n", "team-a", "-o", `jsonpath={.spec.plan} {.status.gitbind.conditions[?(@.type=="Applied")].status}`)
		return fmt.Sprint(out, err), err == nil && out == nano+" True"
	})
	after := must(t)(c.Kubectl(ctx, c.Control(), "get", "postgresqlinstance", "survivor", "-n", c.claimNamespace(), "-o", "jsonpath={.metadata.uid}"))
	if before != after {
		t.Errorf("the service was %s and is %s", before, after)
	}
}
