package plugin

import (
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"

	"gitbind.dev/release/internal/source"
)

// Krew's kinds, as far as they are used here: krew.googlecontainertools.github.com/v1alpha2.
type (
	manifest struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       spec              `json:"spec"`
	}
	spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Platforms        []platform `json:"platforms"`
	}
	platform struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		URI    string      `json:"uri"`
		SHA256 string      `json:"sha256"`
		Files  []operation `json:"files"`
		Bin    string      `json:"bin"`
	}
	operation struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
)

var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// Krew is the manifest; downloads is the URL of the folder that will have the archives.
func Krew(s source.Source, downloads string, archives []Archive) ([]byte, error) {
	m := manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin",
		Metadata: map[string]string{"name": "gitbind"},
		Spec: spec{
			Version: s.Version, Homepage: "https://gitbind.dev", ShortDescription: "Order data services of a control plane through Git",
			Description: "Connects this cluster to a gitbind control plane, and makes what it offers APIs\nof this cluster: claims become commits, and services come back with their Secrets.\n",
		},
	}
	// Krew takes versions of this form only; a build between releases has none.
	if !semantic.MatchString(s.Version) {
		m.Spec.Version = "v0.0.0-" + s.Version
	}
	for _, a := range archives {
		p := platform{URI: fmt.Sprintf("%s/%s", downloads, a.File), SHA256: a.SHA256, Bin: a.Binary}
		p.Selector.MatchLabels = map[string]string{"os": a.OS, "arch": a.Arch}
		p.Files = []operation{{From: a.Binary, To: "."}, {From: "LICENSE", To: "."}}
		m.Spec.Platforms = append(m.Spec.Platforms, p)
	}
	return yaml.Marshal(m)
}
