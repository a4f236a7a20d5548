package kustomize_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// overlay is an operator's own, beside a checkout, as docs/installing.md has it.
func overlay(t *testing.T, rest string, components ...string) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// A kustomization may not name absolute paths.
	relative, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + relative + "/control-plane]\ncomponents:\n"
	for _, c := range components {
		text += "- " + relative + "/" + c + "\n"
	}
	for name, content := range map[string]string{
		"kustomization.yaml": text + rest, "ca.crt": "certificates\n", "tls.crt": "certificate\n", "tls.key": "key\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const ownAuthority = `
configMapGenerator:
- {name: gitbind-ca, namespace: gitbind-system, files: [ca.crt]}
`

const ownCertificates = ownAuthority + `
secretGenerator:
- {name: gitbind-backend-tls, namespace: gitbind-system, type: kubernetes.io/tls, files: [tls.crt, tls.key], options: {disableNameSuffixHash: true}}
`

const ownGitea = `
patches:
- target: {kind: ConfigMap, name: gitbind-backend}
  patch: |
    - {op: add, path: /data/giteaURL, value: "https://git.example.com"}
`

const ownGitHub = `
patches:
- target: {kind: ConfigMap, name: gitbind-backend}
  patch: |
    - {op: add, path: /data/githubURL, value: "https://github.com"}
    - {op: add, path: /data/githubOrganization, value: acme}
    - {op: add, path: /data/githubAppID, value: "123456"}
    - {op: add, path: /data/githubKonnectorAppID, value: "123457"}
`

const ownGitLab = `
patches:
- target: {kind: ConfigMap, name: gitbind-backend}
  patch: |
    - {op: add, path: /data/gitlabURL, value: "https://gitlab.com"}
    - {op: add, path: /data/gitlabGroup, value: company/services}
`

const ownPublicURL = `
configMapGenerator:
- {name: gitbind-backend, namespace: gitbind-system, behavior: merge, literals: ["publicURL=https://services.example.org"]}
`

const ownIssuer = `
patches:
- target: {kind: Certificate, name: gitbind-backend}
  patch: |
    - {op: replace, path: /spec/issuerRef, value: {group: cert-manager.io, kind: ClusterIssuer, name: company}}
`

// components are tried one by one and all together: what they patch must not depend on
// who comes first.
func (c cluster) components(t *testing.T) {
	crds, err := env.CertManagerCRDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		components []string
		rest       string
		want       []string
		not        string
	}{
		{"TLS", []string{"tls"}, ownCertificates, []string{
			"- --tls-cert-file=/etc/gitbind-tls/tls.crt\n", "- --tls-key-file=/etc/gitbind-tls/tls.key\n", "- --backend-url=$(PUBLIC_URL)\n", "secretName: gitbind-backend-tls\n",
		}, "--insecure-listen"},
		{"an own authority for the backend", []string{"backend-ca"}, ownCertificates, []string{
			"- --ca-file=/etc/gitbind-ca/ca.crt\n", "name: gitbind-ca-", "- --backend-url=http://gitbind-backend:8080\n",
		}, "--oidc-ca-file"},
		{"an own authority for the issuer", []string{"issuer-ca"}, ownCertificates, []string{
			"- --oidc-ca-file=/etc/gitbind-ca/ca.crt\n", "name: gitbind-ca-",
		}, "--ca-file"},
		{"certificates of cert-manager", []string{"cert-manager"}, ownPublicURL, []string{
			"- --tls-cert-file=/etc/gitbind-tls/tls.crt\n", "- --ca-file=/etc/gitbind-backend-ca/ca.crt\n", "- --backend-url=$(PUBLIC_URL)\n", "    - services.example.org\n", "secretName: gitbind-ca-key\n", "selfSigned: {}\n",
		}, "- gitbind.example.com\n"},
		{"certificates of an issuer of one's own", []string{"cert-manager/certificate"}, ownPublicURL + ownIssuer, []string{
			"- --tls-cert-file=/etc/gitbind-tls/tls.crt\n", "kind: ClusterIssuer\n", "name: company\n", "    - services.example.org\n",
		}, "--ca-file"},
		{"priority", []string{"priority"}, "", []string{"priorityClassName: gitbind\n", "value: 1000000\n"}, "--tls-cert-file"},
		{"Gitea", []string{"gitea"}, ownGitea, []string{
			"- --gitea-url=$(GITEA_URL)\n", "- --gitea-token-file=/etc/gitea/token\n", "giteaURL: https://git.example.com\n", "secretName: gitbind-gitea\n", "- --git-dir=/var/lib/gitbind\n",
		}, "--tls-cert-file"},
		{"GitHub", []string{"github"}, ownGitHub, []string{
			"- --github-url=$(GITHUB_URL)\n", "- --github-organization=$(GITHUB_ORGANIZATION)\n", "- --github-app-id=$(GITHUB_APP_ID)\n", "- --github-konnector-app-id=$(GITHUB_KONNECTOR_APP_ID)\n",
			"- --github-app-key-file=/etc/github/app.pem\n", "- --github-konnector-app-key-file=/etc/github/konnector-app.pem\n",
			"githubAppID: \"123456\"\n", "secretName: gitbind-github\n", "- --git-dir=/var/lib/gitbind\n",
		}, "--gitea-url"},
		{"GitLab", []string{"gitlab"}, ownGitLab, []string{
			"- --gitlab-url=$(GITLAB_URL)\n", "- --gitlab-group=$(GITLAB_GROUP)\n", "- --gitlab-token-file=/etc/gitlab/token\n", "gitlabGroup: company/services\n", "secretName: gitbind-gitlab\n",
		}, "--gitea-url"},
		{"an own authority for the Git host", []string{"git-host-ca"}, ownCertificates, []string{
			"value: /etc/gitbind-git-host-ca/ca.crt\n", "- mountPath: /etc/gitbind-git-host-ca\n", "name: gitbind-ca-",
		}, "--ca-file"},
		{"all", []string{"gitea", "git-host-ca", "issuer-ca", "backend-ca", "tls"}, ownCertificates + ownGitea, []string{
			"- --tls-cert-file=/etc/gitbind-tls/tls.crt\n", "value: /etc/gitbind-git-host-ca/ca.crt\n", "- --oidc-ca-file=/etc/gitbind-ca/ca.crt\n", "- --ca-file=/etc/gitbind-ca/ca.crt\n", "- --gitea-url=$(GITEA_URL)\n",
		}, "--insecure-listen"},
		{"certificates of cert-manager, and an own authority for the Git host", []string{"gitea", "git-host-ca", "issuer-ca", "backend-ca", "cert-manager"}, ownAuthority + ownGitea, []string{
			"- --ca-file=/etc/gitbind-ca/ca.crt\n", "- --ca-file=/etc/gitbind-backend-ca/ca.crt\n", "value: /etc/gitbind-git-host-ca/ca.crt\n", "name: gitbind-ca-", "secretName: gitbind-ca-key\n",
		}, "--insecure-listen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), c.kubectl, "--kubeconfig="+c.Kubeconfig, "apply", "--server-side", "--dry-run=server", "-o", "yaml",
				"--force-conflicts", "-k", overlay(t, test.rest, test.components...))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, want := range test.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("it lacks %q", want)
				}
			}
			if strings.Contains(string(out), test.not) {
				t.Errorf("it has %q", test.not)
			}
		})
	}
}

// TestDocumentedOverlay builds the overlay of docs/installing.md.
func TestDocumentedOverlay(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/installing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "# my-gitbind/kustomization.yaml")
	text, _, end := strings.Cut(text, "\n```")
	if !found || !end {
		t.Fatal("docs/installing.md has no overlay")
	}
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := overlay(t, "")
	relative, err := filepath.Rel(dir, root)
	if err != nil {
		t.Fatal(err)
	}
	text = "#" + strings.ReplaceAll(text, "../gitbind/", relative+"/")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: registry.example.com/gitbind/gitbind-backend:v1.2.3", "publicURL: https://gitbind.example.com", "type: LoadBalancer", "port: 443", "secretName: gitbind-backend-tls\n", "--oidc-ca-file="} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it lacks %q", want)
		}
	}
}

// TestDocumentedCertificates builds what docs/installing.md has about cert-manager.
func TestDocumentedCertificates(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/installing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Certificates of cert-manager\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```yaml\ncomponents:\n(.*?)```").FindAllStringSubmatch(section, -1)
	wants := []string{"kind: Issuer\n    name: gitbind-ca\n", "kind: ClusterIssuer\n    name: company\n"}
	if len(blocks) != len(wants) {
		t.Fatalf("docs/installing.md has %d overlays with cert-manager, want %d", len(blocks), len(wants))
	}
	for i, want := range wants {
		dir := overlay(t, "")
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		relative, err := filepath.Rel(dir, here)
		if err != nil {
			t.Fatal(err)
		}
		text := "resources: [" + relative + "/control-plane]\ncomponents:\n" + strings.ReplaceAll(blocks[i][1], "../gitbind/kustomize", relative)
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if certificate := string(build(t, dir)["Certificate/gitbind-backend"]); !strings.Contains(certificate, want) {
			t.Errorf("it lacks %q:\n%s", want, certificate)
		}
	}
}

// TestDocumentedShard builds a second shard as docs/operating.md has it: a Deployment of
// its own, with the components and the image of the overlay around it.
func TestDocumentedShard(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "# my-gitbind/shard-b/kustomization.yaml")
	text, _, end := strings.Cut(text, "\n```")
	if !found || !end {
		t.Fatal("docs/operating.md has no shard")
	}
	dir := overlay(t, ownCertificates+"images: [{name: gitbind-gitbridge, newName: registry.example.com/gitbridge, newTag: v1.2.3}]\n", "tls", "backend-ca")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "shard-b")
	if err := os.Mkdir(shard, 0o700); err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(shard, here)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		filepath.Join(shard, "kustomization.yaml"): "#" + strings.ReplaceAll(text, "../../gitbind/kustomize", relative),
		filepath.Join(dir, "kustomization.yaml"):   strings.Replace(string(outer), "/control-plane]", "/control-plane, shard-b]", 1),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	selectors := map[string]labels.Selector{}
	pods := map[string]labels.Set{}
	for _, d := range decode[appsv1.Deployment](t, build(t, dir), "Deployment") {
		if selectors[d.Name], err = metav1.LabelSelectorAsSelector(d.Spec.Selector); err != nil {
			t.Fatal(err)
		}
		pods[d.Name] = d.Spec.Template.Labels
		if d.Name != "gitbind-gitbridge-b" {
			continue
		}
		c := d.Spec.Template.Spec.Containers[0]
		for _, want := range []string{"--shard=$(SHARD)", "--backend-url=$(PUBLIC_URL)", "--ca-file=/etc/gitbind-ca/ca.crt", "--lease-identity=$(POD_NAME)"} {
			if !slices.Contains(c.Args, want) {
				t.Errorf("it lacks %s: %v", want, c.Args)
			}
		}
		if d.Spec.Template.Labels[v1alpha1.LabelShard] != "b" || c.Image != "registry.example.com/gitbridge:v1.2.3" || d.Spec.Template.Spec.ServiceAccountName != "gitbind-gitbridge" {
			t.Errorf("labels %v, image %s, ServiceAccount %s", d.Spec.Template.Labels, c.Image, d.Spec.Template.Spec.ServiceAccountName)
		}
		spread := d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector
		if s, err := metav1.LabelSelectorAsSelector(spread); err != nil || !s.Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("its pods are not spread over nodes: %v", spread)
		}
	}
	if pods["gitbind-gitbridge-b"] == nil {
		t.Fatalf("Deployments %v", pods)
	}
	for name, s := range selectors {
		for of, set := range pods {
			if s.Matches(set) != (name == of) {
				t.Errorf("Deployment %s selects the pods of %s: %t", name, of, s.Matches(set))
			}
		}
	}
}

// The patches that the page has for an overlay.
func TestPatchesOfThePageDoWhatItSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"ClusterRoleBinding/gitbind:cluster-owner": "  name: oidc:platform-users\n",
		"PersistentVolumeClaim/gitbind-git":        "      storage: 20Gi\n",
	}
	patches := regexp.MustCompile("(?s)```yaml\n(patches:\n.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(patches) != len(want) {
		t.Errorf("the page has %d patches, and %d are tried", len(patches), len(want))
	}
	plain := build(t, "control-plane")
	for _, patch := range patches {
		for name, text := range build(t, overlay(t, patch[1])) {
			if string(text) == string(plain[name]) {
				continue
			}
			if want[name] == "" || !strings.Contains(string(text), want[name]) || strings.Contains(string(text), "signed-in") {
				t.Errorf("it makes of %s\n%s", name, text)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("nothing patches %v", want)
	}
}

// What pages have done to the bridges is done to those of all shards.
func TestSelectorsOfThePagesMatchBridgesOfAllShards(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range []string{"../docs/installing.md", "../docs/operating.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:deployment|pod) -l '([^']+)'`).FindAllStringSubmatch(string(text), -1) {
			found++
			selector, err := labels.Parse(m[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{"deployments/gitbridge", "shard"} {
				for name, d := range decode[appsv1.Deployment](t, build(t, dir), "Deployment") {
					if !selector.Matches(labels.Set(d.Labels)) || !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
						t.Errorf("%s: %s does not select %s of %s", page, m[1], name, dir)
					}
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d selectors were found", found)
	}
}
