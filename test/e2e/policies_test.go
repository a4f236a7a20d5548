package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// plansPolicy leaves a namespace the plans that its ConfigMap names.
const plansPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: plans}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [anynines.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]
  validations:
  - expression: object.spec.plan in params.data.plans.split(',') || oldObject != null && oldObject.spec.plan == object.spec.plan
    messageExpression: "'plan ' + object.spec.plan + ' is not for namespace ' + object.metadata.namespace + ', which may have: ' + params.data.plans"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: plans}
spec: {policyName: plans, validationActions: [Deny], paramRef: {name: plans, parameterNotFoundAction: Allow}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: plans, namespace: team-a}
data: {plans: ` + nano + `}
`

// testPolicy gives an offer a policy, and asks all who judge by it about one claim.
func testPolicy(t *testing.T, c *tenant) {
	ctx := t.Context()
	const want = "plan " + small + " is not for namespace team-a, which may have: " + nano
	offer := func(text string) {
		t.Helper()
		var objects []any
		for document := range strings.SplitSeq(text, "\n---\n") {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatal(err)
			}
			if o != nil {
				objects = append(objects, o)
			}
		}
		patch, err := yaml.Marshal(map[string]any{"spec": map[string]any{"policies": objects}})
		if err != nil {
			t.Fatal(err)
		}
		must(t)(c.Kubectl(ctx, c.Control(), "patch", "apiserviceexporttemplate", "postgresql", "--type=merge", "-p", string(patch)))
	}
	said := func(by, text string) {
		t.Helper()
		if !strings.Contains(text, " denied request: "+want) {
			t.Errorf("%s says\n%s\nwant …denied request: %s", by, text, want)
		}
	}
	offer(plansPolicy)
	c.bindingSays(t, "Policies", "Installed")

	file := filepath.Join(t.TempDir(), "claim.yaml")
	if err := os.WriteFile(file, []byte(manifest("judged", small)), 0o600); err != nil {
		t.Fatal(err)
	}
	said("kubectl apply", eventually(t, "kubectl apply is refused", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "apply", "--dry-run=server", "-f", file)
		return out, err != nil && strings.Contains(out, "denied request")
	}))
	c.apply(t, manifest("judged", nano))
	c.until(t, c.control, "what it allows is on the control plane", c.there("judged", nano))

	path := claims + "team-a/judged.yaml"
	const name = "postgresqlinstances.anynines.com/team-a/judged"
	git := func(args ...string) string { return must(t)(c.Git(ctx, c.user, c.clone, args...)) }
	git("fetch", "--quiet")
	git("checkout", "--quiet", "--detach", "origin/main")
	write(t, c.clone, path, manifest("judged", small))
	git("commit", "--quiet", "--all", "--message", "Make it larger")
	git("push", "--quiet", "origin", "HEAD:refs/heads/changes/"+name)
	said("a review", eventually(t, "the change is judged", func(ctx context.Context) (string, bool) {
		out, err := c.Plugin(ctx, c.user, c.admin(), "review", "--url", c.BackendURL, "--cluster-name", c.id, name)
		return out, err == nil && strings.Contains(out, "denied request")
	}))
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(policies, []byte(plansPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := c.Plugin(ctx, c.user, c.admin(), "policy", "check", c.clone, "--policies", policies, "--base", "origin/main")
	if err == nil || !strings.Contains(out, "judged.yaml:8: error: plans: "+want) {
		t.Errorf("policy check says %v\n%s\nwant %s", err, out, want)
	}
	git("checkout", "--quiet", "main")

	// Who pushes to main has gone by both: the claim in the app cluster follows, and the
	// bridge answers.
	c.push(t, "Make it larger", func(dir string) { write(t, dir, path, manifest("judged", small)) })
	said("the bridge", eventually(t, "the bridge answers", func(ctx context.Context) (string, bool) {
		_, _ = c.Git(ctx, c.user, c.clone, "fetch", "--quiet")
		out, err := c.Git(ctx, c.user, c.clone, "show", "origin/status:"+path)
		return strings.Join(strings.Fields(out), " "), err == nil && strings.Contains(out, "denied request")
	}))
	c.until(t, c.app, "the app cluster follows main", has("judged", small))
	said("the claim", eventually(t, "the claim says so", func(ctx context.Context) (string, bool) {
		out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", "judged", "-n", "team-a", "-o", "jsonpath={.status.gitbind.message}")
		return out, err == nil && strings.Contains(out, "denied request")
	}))

	// Nothing is against it any more.
	offer("")
	c.until(t, c.control, "the control plane follows", c.there("judged", small))
}
