// Package gitea_test builds the control plane with the component, as docs/gitea.md says.
package gitea_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func TestTheComponentGivesTheBackendAddressAndToken(t *testing.T) {
	fs := filesys.MakeFsOnDisk()
	overlay := t.TempDir()
	base, err := filesys.ConfirmDir(fs, "..")
	if err != nil {
		t.Fatal(err)
	}
	relative := strings.Repeat("../", strings.Count(overlay, "/")) + strings.TrimPrefix(base.String(), "/")
	if err := fs.WriteFile(overlay+"/kustomization.yaml", []byte(`
resources: [`+relative+`/control-plane]
components: [`+relative+`/gitea]
patches:
- target: {kind: ConfigMap, name: gitbind-backend}
  patch: |
    - {op: add, path: /data/giteaURL, value: "https://git.example.com"}
`)); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, overlay)
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- --gitea-url=$(GITEA_URL)\n", "- --gitea-token-file=/etc/gitea/token\n", "giteaURL: https://git.example.com\n", "secretName: gitbind-gitea\n",
		"- --git-dir=/var/lib/gitbind\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q", want)
		}
	}
}
