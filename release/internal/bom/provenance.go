package bom

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/debian"
	"gitbind.dev/release/internal/source"
)

// Artifact is a file, image or index, and the digest of it.
type Artifact struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// statement is in-toto's, with the predicate of SLSA 1.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []Artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			ResolvedDependencies []Artifact        `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

// Provenance says of artifacts which commit, Go, modules and Debian packages they were
// made of. The programs are those that are in them.
func Provenance(s source.Source, registry string, subjects []Artifact, programs []compile.Program, packages []debian.Package) ([]byte, error) {
	doc := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1", Subject: subjects}
	build := &doc.Predicate.BuildDefinition
	build.BuildType = "https://gitbind.dev/release/v1"
	build.ExternalParameters = map[string]string{"version": s.Version, "registry": registry}
	if s.Dirty {
		build.ExternalParameters["dirty"] = "the checkout was not that of the commit"
	}
	doc.Predicate.RunDetails.Builder.ID = "https://gitbind.dev/release"
	build.ResolvedDependencies = []Artifact{{URI: "git+https://gitbind.dev", Digest: map[string]string{"gitCommit": s.Commit}}}
	seen := map[string]bool{}
	for _, p := range programs {
		arch := p.Arch
		add := func(uri string, digest map[string]string) {
			if !seen[uri] {
				seen[uri] = true
				build.ResolvedDependencies = append(build.ResolvedDependencies, Artifact{URI: uri, Digest: digest})
			}
		}
		add("pkg:golang/toolchain@"+p.Info.GoVersion, nil)
		for _, m := range p.Info.Deps {
			sum, err := dirHash(m.Sum)
			if err != nil {
				return nil, fmt.Errorf("the sum of %s: %w", m.Path, err)
			}
			add("pkg:golang/"+m.Path+"@"+m.Version, map[string]string{"dirHash": sum})
		}
		for _, d := range packages {
			add("pkg:deb/debian/"+d.Name+"@"+d.Version+"?arch="+arch, map[string]string{"sha256": d.SHA256[arch]})
		}
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

// dirHash is the sum of go.sum as in-toto writes it.
func dirHash(sum string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	return hex.EncodeToString(raw), err
}
