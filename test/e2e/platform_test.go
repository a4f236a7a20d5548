package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

const (
	nano  = "postgresql-single-nano"
	small = "postgresql-single-small"
	// medium is refused where a test says so.
	medium = "postgresql-single-medium"
)

// TestTwoClusters runs everything that needs more than one app cluster, or
// breaks something, on one platform.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	p := start(t, platform.Options{AppClusters: []string{env.App, "app2"}})
	alice := connect(t, p, env.Alice, env.App)
	bob := connect(t, p, env.Bob, "app2")

	t.Run("A14_equal namespaces and names of two clusters never touch", func(t *testing.T) { testIsolation(t, alice, bob) })
	t.Run("a stranger reads nothing and binds nothing", func(t *testing.T) { testStrangers(t, alice, bob) })
	t.Run("every kind of bad file is refused by name and stops nothing", func(t *testing.T) { testBadFiles(t, alice) })
	t.Run("D2_a pull request adds and changes and removes a claim", func(t *testing.T) { testPullRequest(t, alice) })
	t.Run("D2_two people order and change and cancel a service by reviewed changes", func(t *testing.T) { testReviews(t, alice, bob) })
	t.Run("E8_several claims are one change", func(t *testing.T) { testSeveralAsOne(t, alice, bob) })
	t.Run("E2_what kubectl changes is approved by somebody else", func(t *testing.T) { testReviewedApply(t, alice, bob) })
	t.Run("E10_one policy has one verdict in the same words at three gates", func(t *testing.T) { testPolicy(t, alice) })
	t.Run("D9_the backend is down and comes back", func(t *testing.T) { testBackendDown(t, alice) })
	t.Run("D8_the control plane's API server is down and comes back", func(t *testing.T) { testControlPlaneDown(t, alice) })
	t.Run("agents restart and write nothing", func(t *testing.T) { testRestart(t, alice) })
}

func testIsolation(t *testing.T, alice, bob *tenant) {
	alice.apply(t, manifest("same", nano))
	bob.apply(t, manifest("same", small))
	a := alice.until(t, alice.control, "alice's claim is there", alice.there("same", nano))
	b := bob.until(t, bob.control, "bob's claim is there", bob.there("same", small))
	if a.Object.GetUID() == b.Object.GetUID() {
		t.Fatal("two clusters share one object")
	}
	must(t)(bob.Kubectl(t.Context(), bob.admin(), "delete", "postgresqlinstance", "same", "-n", "team-a"))
	bob.until(t, bob.control, "bob's claim is gone", func(e platform.Event) bool {
		return e.Type == watch.Deleted && e.Object.GetUID() == b.Object.GetUID()
	})
	out := must(t)(alice.Kubectl(t.Context(), alice.Control(), "get", "postgresqlinstance", "same", "-n", alice.claimNamespace(), "-o", "jsonpath={.metadata.uid} {.spec.plan} {.metadata.deletionTimestamp}"))
	if want := string(a.Object.GetUID()) + " " + nano + " "; out != want {
		t.Errorf("alice's claim is %q, want %q", out, want)
	}
}

func testStrangers(t *testing.T, alice, bob *tenant) {
	ctx := t.Context()
	url, err := alice.CloneURL(ctx, alice.cluster)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := bob.Git(ctx, bob.user, t.TempDir(), "clone", url); err == nil {
		t.Errorf("bob cloned alice's repository: %s", out)
	}
	// Carol may sign in, but nobody let her bind anything.
	token, err := alice.Dex.IDToken(ctx, env.Carol)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ token, method, path, body, status, words string }{
		"no token":                  {"", "GET", "/v1/catalog", "", "401", "sign in"},
		"no token, nonsense":        {"nonsense", "GET", "/v1/catalog", "", "401", ""},
		"another user's cluster":    {token, "POST", "/v1/clusters/" + alice.id + "/bindings", `{"offer":"postgresql"}`, "404", "not yours"},
		"forged signature":          {token[:len(token)-8] + "AAAAAAAA", "GET", "/v1/clusters", "", "401", ""},
		"somebody without an offer": {token, "GET", "/v1/catalog", "", "200", "[]"},
	} {
		status, body := request(t, tc.method, alice.BackendURL+tc.path, tc.token, tc.body)
		if status != tc.status || !strings.Contains(strings.ToLower(body), tc.words) {
			t.Errorf("%s: %s %s; want %s with %q", name, status, body, tc.status, tc.words)
		}
		if strings.Contains(body, "goroutine") || strings.Contains(body, "oidc:") {
			t.Errorf("%s: the refusal shows internals: %s", name, body)
		}
	}
}

func testBadFiles(t *testing.T, c *tenant) {
	c.push(t, "Add a good claim and many bad ones", func(dir string) {
		a := claims + "team-a/"
		write(t, dir, a+"good.yaml", manifest("good", nano))
		write(t, dir, a+"no-yaml.yaml", "a: [1\n")
		write(t, dir, a+"kind.yaml", strings.Replace(manifest("kind", nano), "PostgresqlInstance", "Secret", 1))
		write(t, dir, a+"namespace.yaml", strings.Replace(manifest("namespace", nano), "team-a", "kube-system", 1))
		write(t, dir, a+"large.yaml", manifest("large", nano)+"#"+strings.Repeat("x", 1<<20))
		write(t, dir, a+"empty.yaml", "")
		write(t, dir, a+"two.yaml", manifest("two", nano)+"---\n"+manifest("two", nano))
		write(t, dir, a+"unknown-field.yaml", manifest("unknown-field", nano)+"  colour: red\n")
		write(t, dir, a+"bad-plan.yaml", manifest("bad-plan", "enormous"))
		write(t, dir, a+"Upper.yaml", manifest("Upper", nano))
		write(t, dir, "bindings/secrets.core/claims/team-a/unbound.yaml", "apiVersion: core/v1\nkind: Secret\nmetadata: {name: unbound, namespace: team-a}\n")
		if err := os.Symlink("good.yaml", filepath.Join(dir, a, "link.yaml")); err != nil {
			t.Fatal(err)
		}
	})
	c.until(t, c.control, "the good claim is there", c.there("good", nano))
	c.until(t, c.app, "the good claim is in the app cluster", has("good", nano))
	a := claims + "team-a/"
	out := c.get(t,
		a+"no-yaml.yaml", a+"kind.yaml:2", a+"namespace.yaml:5", a+"large.yaml", a+"empty.yaml", a+"two.yaml:9",
		a+"unknown-field.yaml:9", a+"bad-plan.yaml:8", a+"Upper.yaml", "bindings/secrets.core/claims/team-a/unbound.yaml", a+"link.yaml")
	t.Logf("kubectl gitbind get prints\n%s", out)
	c.push(t, "Remove the bad ones", func(dir string) {
		for _, path := range strings.Fields(must(t)(c.Git(t.Context(), c.user, dir, "ls-files", "bindings"))) {
			if data, _ := os.ReadFile(filepath.Join(dir, path)); string(data) == manifest("good", nano) && !isLink(dir, path) {
				continue
			}
			if strings.Contains(path, "/same.yaml") || strings.HasSuffix(path, "/request.yaml") {
				continue
			}
			if err := os.Remove(filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
		}
	})
	eventually(t, "nothing is refused any more", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].status.refused}")
		return out, err == nil && out == ""
	})
}

func isLink(dir, path string) bool {
	info, err := os.Lstat(filepath.Join(dir, path))
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

func testPullRequest(t *testing.T, c *tenant) {
	// Others stay: the second removal that is half of a binding would be held.
	for i := range 4 {
		c.apply(t, manifest(fmt.Sprint("stays-", i), nano))
	}
	path := claims + "team-a/by-git.yaml"
	c.push(t, "Order by Git", func(dir string) { write(t, dir, path, "# ordered by Git\n"+manifest("by-git", nano)) })
	c.until(t, c.control, "the claim is on the control plane", c.there("by-git", nano))
	c.until(t, c.app, "the claim is in the app cluster", has("by-git", nano))
	c.push(t, "Change by Git", func(dir string) { write(t, dir, path, "# ordered by Git\n"+manifest("by-git", small)) })
	c.until(t, c.control, "the control plane follows", c.there("by-git", small))
	c.until(t, c.app, "the app cluster follows", has("by-git", small))
	c.push(t, "Cancel by Git", func(dir string) {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || !strings.HasPrefix(string(data), "# ordered by Git") {
			t.Fatalf("the file is not as it was written (%v):\n%s", err, data)
		}
		if err := os.Remove(filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	})
	gone := func(e platform.Event) bool { return e.Type == watch.Deleted && e.Object.GetName() == "by-git" }
	there := c.until(t, c.control, "the service is gone", gone)
	here := c.until(t, c.app, "the claim is gone", gone)
	if here.At.Before(there.At) {
		t.Errorf("the claim was gone %s before its service", there.At.Sub(here.At))
	}
}

// platformPolicies are the control plane's own: one refuses a plan, and one labels what it admits.
const platformPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [anynines.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [postgresqlinstances]}]
  matchConditions: [{name: this, expression: "object.metadata.namespace == 'NAMESPACE' && object.metadata.name.startsWith('NAME')"}]
  validations: [{expression: "object.spec.plan != '` + medium + `'", message: medium is for others}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [anynines.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [postgresqlinstances]}]
  matchConditions: [{name: this, expression: "object.metadata.namespace == 'NAMESPACE' && object.metadata.name.startsWith('NAME')"}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'example.com/plan': object.spec.plan}}}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
`

// platformAdmits has platformPolicies in force for claims whose name begins so.
func (c *tenant) platformAdmits(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "policies.yaml", strings.NewReplacer("NAMESPACE", c.claimNamespace(), "NAME", name).Replace(platformPolicies))
	must(t)(c.Kubectl(t.Context(), c.Control(), "apply", "-f", filepath.Join(dir, "policies.yaml")))
	probe := func(plan string) (string, error) {
		write(t, dir, "probe.yaml", strings.Replace(manifest(name+"-probe", plan), "namespace: team-a", "namespace: "+c.claimNamespace(), 1))
		return c.Kubectl(t.Context(), c.Control(), "create", "--dry-run=server", "-o", "yaml", "-f", filepath.Join(dir, "probe.yaml"))
	}
	eventually(t, "the platform's policies are in force", func(context.Context) (string, bool) {
		refused, err := probe(medium)
		labelled, _ := probe(small)
		return refused + labelled, err != nil && strings.Contains(refused, "medium is for others") && strings.Contains(labelled, "example.com/plan")
	})
}

// approving are the arguments with which what `review` has shown is approved, as it says.
func approving(shown string) []string {
	_, args, _ := strings.Cut(shown, "--approve")
	line, _, _ := strings.Cut(args, "\n")
	return append([]string{"--approve"}, strings.Fields(line)...)
}

// testReviews has Alice, whose cluster it is, propose changes, and Bob approve them.
func testReviews(t *testing.T, alice, bob *tenant) {
	ctx := t.Context()
	alice.plugin(t, "share", "approve", "--user", env.Bob, "--binding", "postgresqlinstances", "-n", "team-a", "--yes")
	const name = "postgresqlinstances.anynines.com/team-a/reviewed"
	path := claims + "team-a/reviewed.yaml"
	review := func(user *tenant, args ...string) (string, error) {
		return alice.Plugin(ctx, user.user, user.admin(), append([]string{"review", "--url", alice.BackendURL, "--cluster-name", alice.id}, args...)...)
	}
	propose := func(message string, change func(dir string)) {
		t.Helper()
		alice.propose(t, "changes/"+name, message, change)
	}
	// A review says that the bridge has not answered yet, where that takes longer than a person waits.
	showsBob := func(words ...string) string {
		t.Helper()
		return eventually(t, fmt.Sprintf("Bob is shown the change, with %q", words), func(context.Context) (string, bool) {
			out, err := review(bob, name)
			return out, err == nil && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(out, w) })
		})
	}
	merged := func(message string, change func(dir string), words ...string) {
		t.Helper()
		propose(message, change)
		shown := showsBob(words...)
		approve := append([]string{name}, approving(shown)...)
		if out, err := review(alice, approve...); err == nil || !strings.Contains(out, "you ("+"oidc:"+env.Alice+") have pushed a part of it") {
			t.Errorf("Alice approves her own: %v %s", err, out)
		}
		must(t)(review(bob, approve...))
	}
	propose("Order too much", func(dir string) { write(t, dir, path, manifest("reviewed", "huge")) })
	if out := must(t)(review(alice, name)); !strings.Contains(out, `would be refused: spec.plan: Unsupported value: "huge"`) {
		t.Errorf("of a plan that is none Alice is shown\n%s", out)
	}
	must(t)(review(alice, name, "--reject", "-m", "There is no such plan."))
	must(t)(alice.Git(ctx, alice.user, alice.clone, "push", "--quiet", "origin", "--delete", "changes/"+name))

	merged("Order it", func(dir string) { write(t, dir, path, manifest("reviewed", nano)) }, "orders PostgresqlInstance team-a/reviewed")
	alice.until(t, alice.control, "the claim is on the control plane", alice.there("reviewed", nano))
	alice.until(t, alice.app, "the claim is in the app cluster", has("reviewed", nano))
	// What only the control plane's API server knows is seen before the merge.
	alice.platformAdmits(t, "reviewed")
	propose("Make it too large", func(dir string) { write(t, dir, path, manifest("reviewed", medium)) })
	showsBob("would be refused", "medium is for others")
	must(t)(review(bob, name, "--reject", "-m", "Not that one."))
	must(t)(alice.Git(ctx, alice.user, alice.clone, "push", "--quiet", "origin", "--delete", "changes/"+name))
	merged("Make it larger", func(dir string) { write(t, dir, path, manifest("reviewed", small)) },
		nano+" → "+small, "on the control plane, other than the file says:\n  metadata.labels[\"example.com/plan\"]  ")
	alice.until(t, alice.control, "the control plane follows", alice.there("reviewed", small))
	alice.until(t, alice.app, "the app cluster follows", has("reviewed", small))
	merged("Nobody needs it", func(dir string) { _ = os.Remove(filepath.Join(dir, path)) }, "cancels PostgresqlInstance team-a/reviewed")
	gone := func(e platform.Event) bool { return e.Type == watch.Deleted && e.Object.GetName() == "reviewed" }
	alice.until(t, alice.control, "the service is gone", gone)
	alice.until(t, alice.app, "the claim is gone", gone)
	out := must(t)(alice.Git(ctx, alice.user, filepath.Join(alice.GitDir, alice.id+".git"), "log", "--first-parent", "--format=%an: %s", "--", path))
	if want := "oidc:" + env.Bob + ": Merge changes/" + name + "\n"; out != strings.Repeat(want, 3) {
		t.Errorf("main's history of it is\n%swant three times\n%s", out, want)
	}
	alice.plugin(t, "unshare", "--user", env.Bob, "--yes")
}

// testSeveralAsOne has Alice propose a folder of manifests, and Bob approve it.
func testSeveralAsOne(t *testing.T, alice, bob *tenant) {
	alice.plugin(t, "share", "approve", "--user", env.Bob, "--binding", "postgresqlinstances", "-n", "team-a", "--yes")
	dir := t.TempDir()
	write(t, dir, "one.yaml", manifest("several-1", nano))
	write(t, dir, "two.yaml", manifest("several-2", small))
	alice.plugin(t, "propose", "-f", dir, "-m", "Two that belong together")
	const name = "postgresqlinstances.anynines.com/team-a/several-1"
	review := func(args ...string) string {
		t.Helper()
		return must(t)(alice.Plugin(t.Context(), bob.user, bob.admin(), append([]string{"review", "--url", alice.BackendURL, "--cluster-name", alice.id}, args...)...))
	}
	// The API server may take a moment to know what was shared.
	shown := eventually(t, "Bob sees the change", func(ctx context.Context) (string, bool) {
		out, err := alice.Plugin(ctx, bob.user, bob.admin(), "review", "--url", alice.BackendURL, "--cluster-name", alice.id, name)
		return out, err == nil
	})
	for _, want := range []string{"orders PostgresqlInstance team-a/several-1", "orders PostgresqlInstance team-a/several-2", "Two that belong together"} {
		if !strings.Contains(shown, want) {
			t.Errorf("Bob is shown, without %q:\n%s", want, shown)
		}
	}
	review(append([]string{name}, approving(shown)...)...)
	alice.until(t, alice.app, "the first one is in the app cluster", has("several-1", nano))
	alice.until(t, alice.app, "the second one is in the app cluster", has("several-2", small))
	out := must(t)(alice.Git(t.Context(), alice.user, filepath.Join(alice.GitDir, alice.id+".git"), "log", "--first-parent", "--format=%s", "--", claims+"team-a/several-1.yaml", claims+"team-a/several-2.yaml"))
	if out != "Merge changes/"+name+"\n" {
		t.Errorf("main's history of both is\n%s", out)
	}

	// What agents would not do at once, the reviewer is told.
	write(t, dir, "three.yaml", manifest("several-3", nano))
	alice.plugin(t, "propose", "-f", filepath.Join(dir, "three.yaml"), "--remove", "postgresqlinstance/several-2", "-n", "team-a", "-m", "Another one in its place")
	const next = "postgresqlinstances.anynines.com/team-a/several-3"
	if shown := review(next); !strings.Contains(shown, "the service stays, held, until somebody decides") || strings.Contains(shown, "are deleted") {
		t.Errorf("Bob is shown\n%s", shown)
	}
	review(next, "--reject", "-m", "One after the other.")
	alice.plugin(t, "unshare", "--user", env.Bob, "--yes")
}

// testReviewedApply has somebody use kubectl in a namespace where changes are reviewed, and
// Bob say what becomes of them.
func testReviewedApply(t *testing.T, alice, bob *tenant) {
	ctx := t.Context()
	const binding, namespace = "postgresqlinstances.anynines.com", "team-reviewed"
	must(t)(alice.Kubectl(ctx, alice.admin(), "create", "namespace", namespace))
	must(t)(alice.Kubectl(ctx, alice.admin(), "label", "namespace", namespace, "gitbind.dev/changes=PullRequest"))
	alice.plugin(t, "share", "approve", "--user", env.Bob, "--binding", "postgresqlinstances", "-n", namespace, "--yes")
	review := func(args ...string) (string, error) {
		return alice.Plugin(ctx, bob.user, bob.admin(), append([]string{"review", "--url", alice.BackendURL, "--cluster-name", alice.id, binding + "/" + namespace + "/by-kubectl"}, args...)...)
	}
	condition := func(kind, reason string) (message string) {
		t.Helper()
		return eventually(t, kind+" is "+reason, func(ctx context.Context) (string, bool) {
			out, err := alice.Kubectl(ctx, alice.admin(), "get", "postgresqlinstance", "by-kubectl", "-n", namespace, "-o",
				`jsonpath={.status.gitbind.conditions[?(@.type=="`+kind+`")].reason}: {.status.gitbind.conditions[?(@.type=="`+kind+`")].message}`)
			return out, err == nil && strings.HasPrefix(out, reason+": ")
		})
	}
	approve := func(words string) {
		t.Helper()
		shown := eventually(t, "Bob sees the change", func(context.Context) (string, bool) {
			out, err := review()
			return out, err == nil && strings.Contains(out, words)
		})
		must(t)(review(approving(shown)...))
	}
	order := func(plan string) {
		alice.apply(t, strings.Replace(manifest("by-kubectl", plan), "team-a", namespace, 1))
	}

	order(nano)
	if message := condition("AwaitingReview", "Proposed"); !strings.Contains(message, alice.BackendURL+"/clusters/"+alice.id+"/changes/"+binding+"/"+namespace+"/by-kubectl") {
		t.Errorf("it does not say where it is looked at: %s", message)
	}
	eventually(t, "Bob sees the change", func(context.Context) (string, bool) {
		out, err := review()
		return out, err == nil
	})
	must(t)(review("--reject", "-m", "Take a larger one."))
	if message := condition("Held", "Rejected"); !strings.Contains(message, "oidc:"+env.Bob) || !strings.Contains(message, "Take a larger one.") {
		t.Errorf("it does not say who rejected it, and why: %s", message)
	}
	order(small)
	condition("AwaitingReview", "Proposed")
	if out := must(t)(alice.Kubectl(ctx, alice.Control(), "get", "postgresqlinstances", "-A", "-o", "name")); strings.Contains(out, "by-kubectl") {
		t.Errorf("it is ordered before anybody has approved it: %s", out)
	}
	approve("orders PostgresqlInstance " + namespace + "/by-kubectl")
	alice.until(t, alice.control, "what is approved is on the control plane", has("by-kubectl", small))
	condition("Committed", "Committed")
	condition("AwaitingReview", "None")

	must(t)(alice.Kubectl(ctx, alice.admin(), "delete", "postgresqlinstance", "by-kubectl", "-n", namespace, "--wait=false"))
	condition("AwaitingReview", "Proposed")
	approve("cancels PostgresqlInstance " + namespace + "/by-kubectl")
	gone := func(e platform.Event) bool { return e.Type == watch.Deleted && e.Object.GetName() == "by-kubectl" }
	alice.until(t, alice.control, "the service is gone", gone)
	alice.until(t, alice.app, "the claim is gone", gone)
	if out := must(t)(alice.Git(ctx, alice.user, filepath.Join(alice.GitDir, alice.id+".git"), "branch", "--list", "changes/*")); strings.Contains(out, namespace) {
		t.Errorf("branches are left: %s", out)
	}
	alice.plugin(t, "unshare", "--user", env.Bob, "--yes")
}

func testBackendDown(t *testing.T, c *tenant) {
	ctx := t.Context()
	if err := c.Backend.Kill(); err != nil {
		t.Fatal(err)
	}
	c.apply(t, manifest("while-down", nano))
	eventually(t, "the Connection says that the Git host is out of reach", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "connections.gitbind.dev", "-o", `jsonpath={.items[0].status.conditions[?(@.type=="Ready")].status}`)
		return out, err == nil && out == "False"
	})
	if err := c.Backend.Start(ctx); err != nil {
		t.Fatal(err)
	}
	c.until(t, c.control, "the claim arrives by itself", c.there("while-down", nano))
	eventually(t, "the Connection is ready again", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "connections.gitbind.dev", "-o", `jsonpath={.items[0].status.conditions[?(@.type=="Ready")].status}`)
		return out, err == nil && out == "True"
	})
}

func testControlPlaneDown(t *testing.T, c *tenant) {
	ctx := t.Context()
	if err := c.Cluster(env.Control).APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	c.apply(t, manifest("control-down", nano))
	eventually(t, "the commit is on main all the same", func(ctx context.Context) (string, bool) {
		out, err := c.Git(ctx, c.user, filepath.Join(c.GitDir, c.id+".git"), "ls-tree", "-r", "--name-only", "main")
		return out, err == nil && strings.Contains(out, "control-down")
	})
	if err := c.Cluster(env.Control).APIServer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim arrives by itself", func(ctx context.Context) (string, bool) {
		if c.Bridge.PID() == 0 {
			// An API server that is away for longer than a Lease lasts ends the bridge,
			// and Kubernetes starts it again.
			if err := c.Bridge.Start(ctx); err != nil {
				return err.Error(), false
			}
		}
		out, err := c.Kubectl(ctx, c.Control(), "get", "postgresqlinstance", "control-down", "-n", c.claimNamespace(), "-o", "jsonpath={.spec.plan}")
		return out, err == nil && out == nano
	})
}

// testRestart kills both agents, starts them again, sends a change through and
// sees that nothing else was written.
func testRestart(t *testing.T, c *tenant) {
	ctx := t.Context()
	// When every claim is ready, Crossplane has nothing left to write.
	before, _ := c.settled(t, func(ctx context.Context) (string, bool) {
		return c.eachClaim(ctx, `{.status.gitbind.conditions[?(@.type=="Ready")].status}`, func(ready string) bool { return ready == "True" })
	})
	for _, agent := range []*env.Process{c.Bridge, c.Konnector(c.cluster)} {
		if err := agent.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := agent.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	c.apply(t, manifest("after-restart", nano))
	eventually(t, "the new claim is ready", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", "after-restart", "-n", "team-a", "-o", "jsonpath={.status.gitbind.conditions}")
		return out, err == nil && strings.Contains(out, `"status":"True","type":"Ready"`)
	})
	after := c.versions(t)
	for object, version := range before {
		if after[object] != version {
			t.Errorf("%s was written: resourceVersion %s → %s", object, version, after[object])
		}
	}
}

// versions are the resourceVersions of the tenant's claims in both clusters.
func (c *tenant) versions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for side, args := range map[string][2]string{"app": {c.admin(), "team-a"}, "control": {c.Control(), c.claimNamespace()}} {
		out := must(t)(c.Kubectl(t.Context(), args[0], "get", "postgresqlinstances", "-n", args[1],
			"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`))
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) == 2 {
				versions[side+" "+f[0]] = f[1]
			}
		}
	}
	return versions
}

func request(t *testing.T, method, url, token, body string) (status, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(resp.StatusCode), string(data)
}
