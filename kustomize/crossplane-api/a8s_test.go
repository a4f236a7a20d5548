package crossplaneapi

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// a8s is what becomes of the claims in testdata/klutch.yaml, in their order: the kind and
// the spec of what is composed, an answer of the operators with which the service cannot
// be used yet, and one with which it can.
var a8s = []struct{ apiVersion, kind, spec, notYet, ready string }{
	{
		"postgresql.anynines.com/v1beta3", "Postgresql",
		`{version: 13, replicas: 1, volumeSize: 3Gi, expose: Internal, parameters: {maxConnections: 120, logStatement: ddl}, resources: {requests: {cpu: "2", memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}}`,
		"{clusterStatus: NotRunning, readyReplicas: 0, error: the disk is full}",
		"{clusterStatus: Running, readyReplicas: 1}",
	},
	{
		"servicebindings.anynines.com/v1beta3", "ServiceBinding",
		"{instance: {apiVersion: postgresql.anynines.com/v1beta3, kind: Postgresql, namespace: default, name: example-a8s-postgresql}}",
		"{implemented: false, error: the instance does not run}",
		"{implemented: true, secret: {namespace: default, name: example-a8s-postgresql-service-binding}}",
	},
	{
		"backups.anynines.com/v1beta3", "Backup",
		`{serviceInstance: {apiGroup: postgresql.anynines.com, kind: Postgresql, name: example-a8s-postgresql}, maxRetries: "10"}`,
		"{backupID: b1, retries: 1, conditions: [" + condition("InProgress", "True") + "]}",
		"{backupID: b1, retries: 1, size: 4096, conditions: [" + condition("InProgress", "False") + ", " + condition("Complete", "True") + "]}",
	},
	{
		"backups.anynines.com/v1beta3", "Restore",
		"{backupName: example-a8s-postgresql, serviceInstance: {apiGroup: postgresql.anynines.com, kind: Postgresql, name: example-a8s-postgresql}}",
		"{restoreID: r1, conditions: [" + condition("Failed", "True") + "]}",
		"{restoreID: r1, conditions: [" + condition("Failed", "False") + ", " + condition("Complete", "True") + "]}",
	},
}

func condition(kind, status string) string {
	return fmt.Sprintf(`{type: %s, status: "%s", reason: Test, message: "", lastTransitionTime: "2026-11-23T00:00:00Z"}`, kind, status)
}

// testA8s runs the claims through their life, with the answers that the operators give.
// test/e2e does it with real servers.
func testA8s(c *cluster) {
	claims := c.klutchManifests()
	for i, claim := range claims {
		c.eventually(claim.GetKind()+" is taken", func() string { return problem(c.serverSide(claim)) }, "")
		composed := a8sObject(i, claim)
		c.wantSpec(composed, a8s[i].spec)
		c.answer(composed, claim, a8s[i].notYet)
		if ready := c.condition(claim, "Ready"); ready != "False" {
			c.Errorf("%s: Ready is %s with the answer %s", claim.GetKind(), ready, a8s[i].notYet)
		}
		c.answer(composed, claim, a8s[i].ready)
		c.eventually(claim.GetKind()+" is ready", func() string { return c.condition(claim, "Ready") }, "True")
	}

	// Three servers, of which two do not run yet.
	instance, servers := claims[0], a8sObject(0, claims[0])
	c.mustServerSide(c.object(`{apiVersion: anynines.com/v1, kind: PostgresqlInstance, metadata: {name: example-a8s-postgresql, namespace: default}, spec: {service: a9s-postgresql13, plan: postgresql-replica-big}}`))
	c.wantSpec(servers, `{version: 13, replicas: 3, volumeSize: 100Gi, expose: Internal, resources: {requests: {cpu: "4", memory: 16Gi}, limits: {cpu: "4", memory: 16Gi}}}`)
	c.eventually("the larger instance is not ready", func() string { return c.condition(instance, "Ready") }, "False")
	c.answer(servers, instance, "{clusterStatus: Running, readyReplicas: 3}")
	c.eventually("the larger instance is ready", func() string { return c.condition(instance, "Ready") }, "True")

	c.wantQuickDeletes(len(a8s))
	for i, claim := range claims {
		if err := c.Delete(c.Context(), claim, client.PropagationPolicy("Foreground")); err != nil {
			c.Fatal(err)
		}
		c.eventually(claim.GetKind()+" is gone", func() string { return c.existence(claim) }, "gone")
		if got := c.existence(a8sObject(i, claim)); got != "gone" {
			c.Errorf("the %s of a8s is %s after its claim has gone", a8s[i].kind, got)
		}
	}
}

// a8sObject is what is composed for a claim, by its name.
func a8sObject(i int, claim *unstructured.Unstructured) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(a8s[i].apiVersion)
	u.SetKind(a8s[i].kind)
	u.SetNamespace(claim.GetNamespace())
	u.SetName(claim.GetName())
	return u
}

func (c *cluster) wantSpec(u *unstructured.Unstructured, want string) {
	c.Helper()
	c.eventually("the "+u.GetKind()+" of a8s", func() string {
		if e := c.existence(u); e != "there" {
			return e
		}
		return cmp.Diff(c.json(want), text(u.Object["spec"]))
	}, "")
}

// answer sets the status of what is composed, and waits until the claim has it as
// status.managed, all of it and nothing that was there before.
func (c *cluster) answer(composed, claim *unstructured.Unstructured, status string) {
	c.Helper()
	c.eventually("an answer of a8s is taken", func() string {
		u := c.get(composed)
		if err := json.Unmarshal([]byte(`{"status": `+c.json(status)+`}`), &u.Object); err != nil {
			return err.Error()
		}
		return problem(c.Status().Update(c.Context(), u))
	}, "")
	c.eventually("status.managed of "+claim.GetKind(), func() string {
		managed, _, _ := unstructured.NestedMap(c.get(claim).Object, "status", "managed")
		return cmp.Diff(c.json(status), text(managed))
	}, "")
}

func (c *cluster) json(manifest string) string {
	c.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		c.Fatal(err)
	}
	return string(data)
}

func text(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// wantQuickDeletes looks at the Objects as Crossplane has them.
func (c *cluster) wantQuickDeletes(count int) {
	c.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(c.form.object)
	if err := c.List(c.Context(), all); err != nil || len(all.Items) != count {
		c.Errorf("there are %d Objects (%v), want %d", len(all.Items), err, count)
	}
	for _, object := range all.Items {
		if got := object.GetAnnotations()["crossplane.io/external-create-succeeded"]; got != "2020-01-01T00:00:00Z" {
			c.Errorf("%s may wait for long when it is deleted: it was created at %q", object.GetName(), got)
		}
	}
}
