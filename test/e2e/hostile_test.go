package e2e

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gitbind.dev/test/scan"
)

// testHostile has the konnector of one app cluster lie: it uses its credential
// everywhere, and writes into its repository what could lead to another tenant.
func testHostile(t *testing.T, victim, hostile *tenant, all *scan.Scan) {
	password := hostile.credential(t, all)["password"]
	// Afterwards nothing of the victim's own is under way.
	victim.settled(t, func(context.Context) (string, bool) { return "", true })
	before := victim.everything(t)
	host := victim.BackendURL

	for what, path := range map[string]string{
		"repository":       "GET /git/" + victim.id + ".git/info/refs?service=git-upload-pack",
		"push":             "GET /git/" + victim.id + ".git/info/refs?service=git-receive-pack",
		"events":           "GET /v1/events?cluster=" + victim.id,
		"credential":       "GET /v1/clusters/" + victim.id + "/credential",
		"renewal":          "POST /v1/clusters/" + victim.id + "/credential",
		"rotation":         "POST /v1/clusters/" + victim.id + "/credential/rotate",
		"revocation":       "DELETE /v1/clusters/" + victim.id + "/credential",
		"its own rotation": "POST /v1/clusters/" + hostile.id + "/credential/rotate",
		"encryption key":   "PUT /v1/clusters/" + victim.id + "/encryption",
		"binding":          "POST /v1/clusters/" + hostile.id + "/bindings",
		"clusters":         "GET /v1/clusters",
		"catalogue":        "GET /v1/catalog",
	} {
		method, path, _ := strings.Cut(path, " ")
		if status, answer := basic(t, method, host+path, "konnector", password); status != "401" {
			t.Errorf("%s: %s %s", what, status, answer)
		}
	}
	// As another one: the user's name is the client's to choose.
	for _, user := range []string{"bridge", "konnector@" + victim.id, victim.id} {
		if status, _ := basic(t, "GET", host+"/git/"+hostile.id+".git/info/refs?service=git-receive-pack", user, password); status != "401" {
			t.Errorf("as %s: %s", user, status)
		}
	}

	lies := map[string]string{
		"labels":      "  labels: {gitbind.dev/cluster: " + victim.id + ", gitbind.dev/namespace: team-a, gitbind.dev/cluster-uid: x}\n",
		"annotations": "  annotations: {gitbind.dev/adopt: " + victim.id + ", gitbind.dev/base: x, crossplane.io/external-name: " + victim.id + "}\n",
		"owners":      "  ownerReferences: [{apiVersion: gitbind.dev/v1alpha1, kind: ClusterBinding, name: " + victim.id + ", uid: x}]\n",
	}
	there := victim.claimNamespace()
	hostile.push(t, "Lies", func(dir string) {
		for name, lie := range lies {
			write(t, dir, claims+"team-a/"+name+".yaml", strings.Replace(manifest(name, nano), "spec:\n", lie+"spec:\n", 1))
		}
		write(t, dir, claims+"team-a/stolen.yaml", strings.Replace(manifest("stolen", nano), "namespace: team-a", "namespace: "+there, 1))
		write(t, dir, claims+there+"/there.yaml", strings.Replace(manifest("there", nano), "namespace: team-a", "namespace: "+there, 1))
		write(t, dir, claims+"team-a/secret.yaml", manifest("secret", nano)+"  writeConnectionSecretToRef: {name: gitbind-konnector, namespace: gb-"+victim.id+"}\n")
		write(t, dir, "bindings/secrets/claims/gb-"+victim.id+"/gitbind-konnector.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: gitbind-konnector, namespace: gb-"+victim.id+"}\n")
		write(t, dir, "bindings/clusterbindings.gitbind.dev/claims/team-a/"+victim.id+".yaml", "apiVersion: gitbind.dev/v1alpha1\nkind: ClusterBinding\nmetadata: {name: "+victim.id+", namespace: team-a}\n")
	})
	// What is honest beside it goes through, so all of it was looked at.
	hostile.apply(t, manifest("honest", nano))
	hostile.until(t, hostile.control, "the honest claim is there", hostile.there("honest", nano))

	if after := victim.everything(t); after != before {
		t.Errorf("what belongs to the other tenant was\n%s\nand is\n%s", before, after)
	}
	// Whatever was made of the lies is the liar's own.
	ctx := t.Context()
	out := must(t)(hostile.Kubectl(ctx, hostile.Control(), "get", "postgresqlinstances", "-A", "-o",
		`jsonpath={range .items[*]}{.metadata.namespace} {.metadata.labels.gitbind\.dev/cluster} {.metadata.name}{"\n"}{end}`))
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 3 || !strings.HasPrefix(f[0], "gb-"+f[1]+"-") {
			t.Errorf("object %q: its namespace and its label are of two clusters", line)
		}
		if f[1] == victim.id && (lies[f[2]] != "" || f[2] == "stolen" || f[2] == "there" || f[2] == "secret") {
			t.Errorf("a lie became %q", line)
		}
	}
	// What the bridge may do for the liar, it may not do to the other.
	as := "--as=system:serviceaccount:gb-" + hostile.id + ":gitbind-tenant"
	for _, right := range [][]string{
		{"get", "secrets", "-n", "gb-" + victim.id}, {"get", "secrets", "-n", victim.claimNamespace()}, {"create", "postgresqlinstances", "-n", victim.claimNamespace()},
		{"delete", "postgresqlinstances", "-n", victim.claimNamespace()}, {"get", "secrets", "-n", "gb-" + hostile.id}, {"get", "clusterbindings"}, {"impersonate", "serviceaccounts", "-n", "gb-" + victim.id},
	} {
		out, _ := hostile.Kubectl(ctx, hostile.Control(), append([]string{"auth", "can-i", as}, right...)...)
		if !strings.HasPrefix(strings.TrimSpace(lastLine(out)), "no") {
			t.Errorf("the other tenant's ServiceAccount may %v: %s", right, out)
		}
	}
}

// everything is what a tenant has on the control plane.
func (c *tenant) everything(t *testing.T) string {
	t.Helper()
	var all []string
	for _, args := range [][]string{
		{"get", "secrets,serviceaccounts,roles,rolebindings", "-n", "gb-" + c.id}, {"get", "secrets,postgresqlinstances,rolebindings", "-n", c.claimNamespace()},
		{"get", "clusterroles,clusterrolebindings", "-l", "gitbind.dev/cluster=" + c.id},
	} {
		all = append(all, must(t)(c.Kubectl(t.Context(), c.Control(), append(args,
			"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.uid} {.metadata.generation} {.data} {.spec}{"\n"}{end}`)...)))
	}
	all = append(all, must(t)(c.Git(t.Context(), c.user, filepath.Join(c.GitDir, c.id+".git"), "show-ref")))
	return strings.Join(all, "")
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// basic makes a request with an HTTP basic credential.
func basic(t *testing.T, method, url, user, password string) (status, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return "200", ""
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(resp.StatusCode), string(data)
}
