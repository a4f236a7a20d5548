// Package bom says what is in a program or image, and what it was made of: a software
// bill of materials (CycloneDX 1.6) and a provenance (SLSA 1 as in-toto statement). Both
// are functions of their input, without the time or place of the build. Neither is signed.
package bom

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/debian"
	"gitbind.dev/release/internal/source"
)

// Types of the documents.
const (
	SBOMType       = "application/vnd.cyclonedx+json"
	ProvenanceType = "application/vnd.in-toto+json"
)

// Subject is what a document is about.
type Subject struct {
	Source source.Source
	// Name is that of the image or program.
	Name string
	// Program is in it; Packages are, too.
	Program  compile.Program
	Packages []debian.Package
	// Roots is the version of the module that the certificates are from; empty when there
	// are none.
	Roots string
}

const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// SBOM lists the Go modules that are in the program, the standard library, and the other
// packages.
func (s Subject) SBOM() ([]byte, error) {
	components := []cyclonedx.Component{goModule("stdlib", strings.TrimPrefix(s.Program.Info.GoVersion, "go"))}
	for _, m := range s.Program.Info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, goModule(m.Path, m.Version))
	}
	if s.Roots != "" {
		components = append(components, goModule(rootsModule, s.Roots))
	}
	for _, p := range s.Packages {
		purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=debian-%s", p.Name, url.QueryEscape(p.Version), s.Program.Arch, debian.Release)
		components = append(components, cyclonedx.Component{
			BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: p.Name, Version: p.Version, PackageURL: purl,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: p.SHA256[s.Program.Arch]}},
		})
	}
	doc := cyclonedx.NewBOM()
	doc.Metadata = &cyclonedx.Metadata{
		Timestamp: s.Source.Time.Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{
			BOMRef: s.Name, Type: cyclonedx.ComponentTypeApplication, Name: s.Name, Version: s.Source.Version,
			PackageURL: "pkg:golang/" + s.Program.Info.Main.Path + "@" + url.QueryEscape(s.Source.Version),
		},
	}
	doc.Components = &components
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(doc)
	return out.Bytes(), err
}

func goModule(path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
	return cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
}
