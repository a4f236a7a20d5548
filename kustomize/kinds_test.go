package kustomize_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"gitbind.dev/test/env"
)

// kinds are good objects of ours; each case changes one thing of one.
var kinds = map[string]string{
	"ClusterBinding":           "metadata: {name: k3x9}\nspec: {displayName: prod, owner: {issuer: 'https://i.example.org', subject: s, username: alice}, removals: {most: 3, window: 10m}}",
	"APIServiceExportTemplate": "metadata: {name: pg}\nspec: {api: {group: anynines.com, version: v1, resource: postgresqlinstances}, displayName: PostgreSQL 17, group: Databases, transform: {patches: [{patch: 'spec: {a: b}', target: {labelSelector: a=b}}]}, metadataKeys: [example.com/, acme.io/cost-center], readyCondition: Issued, quota: {cluster: {claims: 5, weight: 10}, namespace: {claims: 0}, weights: {field: spec.plan, values: {big: 4}}}, permissionClaims: [{name: $(name)-creds, keys: [host]}, {field: status.managed.secret.name}, {matchLabels: {claim: $(name)}}]}",
	"APIServiceExport":         "metadata: {name: postgresqlinstances.anynines.com, namespace: default}\nspec: {template: pg, api: {group: anynines.com, version: v1, resource: postgresqlinstances}}",
	"Connection":               "metadata: {name: main}\nspec: {backendURL: 'https://b.example.org/x', repositoryURL: 'http://g.example.org:3000/a.git', clusterID: k3x9, secretRef: {namespace: gitbind-system, name: main}, namespaces: [team-*], removals: {most: 0, window: 1h30m}}",
	"APIServiceBinding":        "metadata: {name: postgresqlinstances.anynines.com}\nspec: {connection: main, writer: Git, template: postgresql.small, deletionPolicy: Orphan, schemaUpdates: Never}",
}

func TestC10_EveryInvalidObjectOfOursIsRefusedInWordsThatHelp(t *testing.T) {
	t.Parallel()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.Control}, NoControllerManager: true})
	admin, err := client.New(e.Cluster(env.Control).Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"crds/app", "crds/control-plane"} {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resources.Resources() {
			data, err := r.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(data); err != nil {
				t.Fatal(err)
			}
			if err := admin.Create(t.Context(), u); err != nil {
				t.Fatal(err)
			}
		}
	}
	for kind := range kinds {
		u := object(t, kind)
		if err := env.Await(time.Minute, func() error { return admin.Create(t.Context(), u.DeepCopy()) }); err != nil {
			t.Fatalf("a good %s is refused: %v", kind, err)
		}
	}

	long := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		kind, path string
		value      any // nil takes the field away
		words      string
	}{
		{"ClusterBinding", "metadata.name", "a-b", "is the cluster's id"},
		{"ClusterBinding", "metadata.name", long(61), "at most 60"},
		{"ClusterBinding", "spec", nil, "spec: Required value"},
		{"ClusterBinding", "spec.displayName", "", "spec.displayName: Invalid value"},
		{"ClusterBinding", "spec.displayName", nil, "spec.displayName: Required value"},
		{"ClusterBinding", "spec.displayName", long(64), "may not be more than 63"},
		{"ClusterBinding", "spec.clusterUID", long(65), "may not be more than 64"},
		{"ClusterBinding", "spec.owner", nil, "spec.owner: Required value"},
		{"ClusterBinding", "spec.owner.issuer", "", "spec.owner.issuer: Invalid value"},
		{"ClusterBinding", "spec.owner.subject", "", "spec.owner.subject: Invalid value"},
		{"ClusterBinding", "spec.owner.username", "", "spec.owner.username: Invalid value"},
		{"ClusterBinding", "spec.suspended", "yes", "must be of type boolean"},
		{"ClusterBinding", "spec.removals.most", int64(-1), "greater than or equal to 0"},
		{"ClusterBinding", "spec.removals.most", int64(201), "less than or equal to 200"},
		{"ClusterBinding", "spec.removals.window", "59s", "window must be a duration from 1m to 24h, for example 10m"},
		{"ClusterBinding", "spec.removals.window", "25h", "window must be a duration from 1m to 24h"},
		{"ClusterBinding", "spec.removals.window", "soon", "window must be a duration from 1m to 24h"},
		{"APIServiceExportTemplate", "spec.api", nil, "spec.api: Required value"},
		{"APIServiceExportTemplate", "spec.api.group", "anynines", "group must be a domain"},
		{"APIServiceExportTemplate", "spec.api.group", "Anynines.com", "group must be a domain"},
		{"APIServiceExportTemplate", "spec.api.group", "apps.k8s.io", "group is reserved: offer an API of your own group"},
		{"APIServiceExportTemplate", "spec.api.group", "gitbind.dev", "group is reserved"},
		{"APIServiceExportTemplate", "spec.api.group", "a." + long(252), "may not be more than 253"},
		{"APIServiceExportTemplate", "spec.api.version", "1", "version must be one such as v1 or v1alpha1"},
		{"APIServiceExportTemplate", "spec.api.version", "v" + strings.Repeat("1", 63), "may not be more than 63"},
		{"APIServiceExportTemplate", "spec.api.resource", "PostgresqlInstance", "resource must be the plural name in lower case"},
		{"APIServiceExportTemplate", "spec.api.resource", "a/b", "resource must be the plural name"},
		{"APIServiceExportTemplate", "spec.api.resource", long(64), "may not be more than 63"},
		{"APIServiceExportTemplate", "spec.displayName", long(64), "may not be more than 63"},
		{"APIServiceExportTemplate", "spec.readyCondition", "is it issued?", "readyCondition is the type of a condition, for example Issued"},
		{"APIServiceExportTemplate", "spec.displayName", " PostgreSQL", "displayName must be one line without blanks around it, for example PostgreSQL"},
		{"APIServiceExportTemplate", "spec.displayName", "Postgre\nSQL", "displayName must be one line"},
		{"APIServiceExportTemplate", "spec.group", long(64), "may not be more than 63"},
		{"APIServiceExportTemplate", "spec.group", "Databases ", "group must be one line without blanks around it, for example Databases"},
		{"APIServiceExportTemplate", "spec.group", " ", "group must be one line"},
		{"APIServiceExportTemplate", "spec.description", long(1025), "may not be more than 1024"},
		{"APIServiceExportTemplate", "spec.transform.patches", []any{}, "should have at least 1 items"},
		{"APIServiceExportTemplate", "spec.transform.patches", many(33, map[string]any{"patch": "x"}), "must have at most 32 items"},
		{"APIServiceExportTemplate", "spec.transform.patches", []any{map[string]any{}}, "patch: Required value"},
		{"APIServiceExportTemplate", "spec.transform.patches", []any{map[string]any{"patch": ""}}, "should be at least 1 chars long"},
		{"APIServiceExportTemplate", "spec.transform.patches", []any{map[string]any{"patch": long(65537)}}, "may not be more than 65536"},
		{"APIServiceExportTemplate", "spec.transform.patches", []any{map[string]any{"patch": "x", "target": map[string]any{}}}, "labelSelector: Required value"},
		{"APIServiceExportTemplate", "spec.transform.patches", []any{map[string]any{"patch": "x", "target": map[string]any{"labelSelector": long(1025)}}}, "may not be more than 1024"},
		{"APIServiceExportTemplate", "spec.quota", map[string]any{}, "give a limit for the cluster"},
		{"APIServiceExportTemplate", "spec.quota", map[string]any{"cluster": map[string]any{}}, "give claims, weight, or both"},
		{"APIServiceExportTemplate", "spec.quota.weights", nil, "a limit by weight needs weights"},
		{"APIServiceExportTemplate", "spec.quota.cluster.claims", int64(-1), "greater than or equal to 0"},
		{"APIServiceExportTemplate", "spec.quota.weights.field", "plan", "field is a path in spec"},
		{"APIServiceExportTemplate", "spec.quota.weights.values", map[string]any{"big": int64(-1)}, "a weight is 0 or more"},
		{"APIServiceExportTemplate", "spec.permissionClaims", []any{map[string]any{}}, "give exactly one of name, field and matchLabels"},
		{"APIServiceExportTemplate", "spec.permissionClaims", []any{map[string]any{"name": "a", "field": "status.b"}}, "give exactly one of"},
		{"APIServiceExportTemplate", "spec.permissionClaims", []any{map[string]any{"name": "$(claim)-creds"}}, "$(name) for the claim's name"},
		{"APIServiceExportTemplate", "spec.permissionClaims", []any{map[string]any{"field": "spec.secretName"}}, "field is a path in status"},
		{"APIServiceExportTemplate", "spec.permissionClaims", []any{map[string]any{"field": "status.secretName", "direction": "Up"}}, "with direction Up it is one in spec"},
		{"APIServiceExportTemplate", "spec.permissionClaims", []any{map[string]any{"name": "x", "resource": "configmaps"}}, "only Secrets go down"},
		{"APIServiceExportTemplate", "spec.permissionClaims", []any{map[string]any{"matchLabels": map[string]any{}}}, "give exactly one of"},
		{"ClusterBinding", "spec.encryption", map[string]any{"recipients": []any{"age1pq1xyz"}}, "a recipient is age's public key"},
		{"ClusterBinding", "spec.encryption", map[string]any{"signingKeys": []any{"x"}}, "Ed25519 public key, 32 bytes in base64"},
		{"APIServiceExportTemplate", "spec.metadataKeys", []any{"team"}, "each is a key with a prefix, or a prefix with a slash"},
		{"APIServiceExportTemplate", "spec.metadataKeys", []any{"*"}, "each is a key with a prefix"},
		{"APIServiceExportTemplate", "spec.metadataKeys", []any{"example.com/a/b"}, "each is a key with a prefix"},
		{"APIServiceExportTemplate", "spec.metadataKeys", []any{"gitbind.dev/"}, "what tools and servers keep for themselves never travels"},
		{"APIServiceExportTemplate", "spec.metadataKeys", []any{"x.crossplane.io/external-name"}, "never travels"},
		{"APIServiceExportTemplate", "spec.metadataKeys", []any{"example.com/", "example.com/"}, "Duplicate value"},
		{"APIServiceExportTemplate", "spec.metadataKeys", []any{"example.com/" + long(306)}, "may not be more than 317"},
		{"APIServiceExport", "metadata.name", "other.anynines.com", "metadata.name must be <resource>.<group> of spec.api"},
		{"APIServiceExport", "spec.template", "", "spec.template: Invalid value"},
		{"APIServiceExport", "spec.api.group", "k8s.io", "group is reserved"},
		{"APIServiceExport", "spec.api", nil, "spec.api: Required value"},
		{"Connection", "spec.repositoryURL", nil, "spec.repositoryURL: Required value"},
		{"Connection", "spec.repositoryURL", "git@example.org:a.git", "repositoryURL must be an http, https or ssh URL"},
		{"Connection", "spec.repositoryURL", "ssh://git@example.org", "repositoryURL must be an http, https or ssh URL"},
		{"Connection", "spec.repositoryURL", "ssh://git:secret@example.org/a.git", "repositoryURL must be an http, https or ssh URL"},
		{"Connection", "spec.repositoryURL", "https://alice:secret@example.org/a.git", "without credentials"},
		{"Connection", "spec.repositoryURL", "https://example.org/a.git?token=x", "without credentials, query or fragment"},
		{"Connection", "spec.repositoryURL", "https://e.org/" + long(2048), "may not be more than 2048"},
		{"Connection", "spec.backendURL", "example.org", "backendURL must be an http or https URL"},
		{"Connection", "spec.clusterID", "", "spec.clusterID: Invalid value"},
		{"Connection", "spec.clusterID", long(64), "may not be more than 63"},
		{"Connection", "spec.secretRef", nil, "spec.secretRef: Required value"},
		{"Connection", "spec.secretRef.name", "", "spec.secretRef.name: Invalid value"},
		{"Connection", "spec.secretRef.namespace", "", "spec.secretRef.namespace: Invalid value"},
		{"Connection", "spec.namespaces", []any{"Team"}, "a namespace is lower-case letters, digits and dashes, with *"},
		{"Connection", "spec.namespaces", []any{"a", "a"}, "Duplicate value"},
		{"Connection", "spec.namespaces", []any{long(64)}, "may not be more than 63"},
		{"Connection", "spec.namespaces", many(257, "a"), "must have at most 256 items"},
		{"Connection", "spec.removals.most", int64(201), "less than or equal to 200"},
		{"Connection", "spec.removals.most", int64(-1), "greater than or equal to 0"},
		{"Connection", "spec.removals.sharePercent", int64(101), "less than or equal to 100"},
		{"Connection", "spec.removals.window", "24h1s", "window must be a duration from 1m to 24h"},
		{"Connection", "spec.removals.window", "59s", "window must be a duration from 1m to 24h"},
		{"APIServiceBinding", "metadata.name", "postgresqlinstances", "metadata.name must be <plural>.<group>, for example postgresqlinstances.anynines.com"},
		{"APIServiceBinding", "metadata.name", "1.anynines.com", "metadata.name must be <plural>.<group>"},
		{"APIServiceBinding", "spec.connection", "", "spec.connection: Invalid value"},
		{"APIServiceBinding", "spec.connection", nil, "spec.connection: Required value"},
		{"APIServiceBinding", "spec.writer", "Nobody", `supported values: "Both", "Cluster", "Git"`},
		{"APIServiceBinding", "spec.template", "Postgres QL", "template must be the name of an offer, as kubectl gitbind catalog lists it"},
		{"APIServiceBinding", "spec.template", "", "template must be the name of an offer"},
		{"APIServiceBinding", "spec.template", long(254), "may not be more than 253"},
		{"APIServiceBinding", "spec.deletionPolicy", "delete", `supported values: "Refuse", "Orphan", "Delete"`},
		{"APIServiceBinding", "spec.schemaUpdates", "Sometimes", `supported values: "Always", "Never"`},
	} {
		u := object(t, c.kind)
		if c.path != "metadata.name" && !strings.Contains(u.GetName(), ".") {
			u.SetName("other")
		}
		set(t, u, c.value, c.path)
		wantRefused(t, c.kind+" "+c.path, admin.Create(t.Context(), u, client.DryRunAll), c.words)
	}

	for path, value := range map[string]any{
		"spec.namespaces":            []any{"*", "team-*", "*-prod"},
		"spec.removals":              nil,
		"spec.removals.sharePercent": int64(0),
		"spec.removals.window":       "24h",
	} {
		u := object(t, "Connection")
		u.SetName("other")
		set(t, u, value, path)
		if err := admin.Create(t.Context(), u, client.DryRunAll); err != nil {
			t.Errorf("a good %s is refused: %v", path, err)
		}
	}
	defaults := object(t, "Connection")
	defaults.SetName("other")
	set(t, defaults, map[string]any{}, "spec.removals")
	if err := admin.Create(t.Context(), defaults, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	got, _, _ := unstructured.NestedMap(defaults.Object, "spec", "removals")
	if diff := cmp.Diff(map[string]any{"most": int64(3), "sharePercent": int64(50), "window": "10m"}, got); diff != "" {
		t.Errorf("the defaults of a Connection's removals: %s", diff)
	}

	for _, c := range []struct{ kind, path, value, words string }{
		{"ClusterBinding", "spec.owner.subject", "mallory", "owner cannot be changed: a ClusterBinding belongs to the identity that created it, or that took it over by spec.transferTo"},
		{"APIServiceExport", "spec.api.version", "v2", "api cannot be changed: bind the other API instead"},
		{"Connection", "spec.clusterID", "other", "clusterID cannot be changed: make a new Connection"},
		{"APIServiceBinding", "spec.connection", "other", "connection cannot be changed: unbind, then bind again"},
	} {
		u := object(t, c.kind)
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			t.Fatal(err)
		}
		set(t, u, c.value, c.path)
		wantRefused(t, "changed "+c.kind+" "+c.path, admin.Update(t.Context(), u, client.DryRunAll), c.words)
	}
}

func object(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(kinds[kind]), &u.Object); err != nil {
		t.Fatal(err)
	}
	if most, ok, _ := unstructured.NestedFloat64(u.Object, "spec", "removals", "most"); ok {
		set(t, u, int64(most), "spec.removals.most")
	}
	u.SetAPIVersion("gitbind.dev/v1alpha1")
	u.SetKind(kind)
	return u
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path string) {
	t.Helper()
	fields := strings.Split(path, ".")
	if value == nil {
		unstructured.RemoveNestedField(u.Object, fields...)
		return
	}
	if err := unstructured.SetNestedField(u.Object, runtime.DeepCopyJSONValue(value), fields...); err != nil {
		t.Fatal(err)
	}
}

func many(n int, value any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = value
	}
	return out
}

func wantRefused(t *testing.T, what string, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: got %v, want %q", what, err, words)
	}
}
