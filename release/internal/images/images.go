// Package images makes the images of gitbind: one layout with an index for each program,
// and with the SBOM of each image and the provenance of each index attached.
package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"gitbind.dev/gitbridge/version"
	"gitbind.dev/release/internal/bom"
	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/debian"
	"gitbind.dev/release/internal/image"
	"gitbind.dev/release/internal/source"
)

// program is what one image holds.
type program struct {
	name, pkg, description string
	// git says that the program runs git.
	git bool
}

var programs = []program{
	{"konnector", "./konnector/cmd/konnector", "gitbind's agent in an app cluster", false},
	{"gitbridge", "./gitbridge/cmd/gitbridge", "gitbind's agent on the control plane", false},
	{"backend", "./backend/cmd/backend", "gitbind's service on the control plane, with a Git host", true},
}

func (p program) image() string { return "gitbind-" + p.name }

// Options say what is built of what.
type Options struct {
	compile.Builder
	// Layout is the folder of the OCI layout.
	Layout string
	// Archs are the architectures; amd64 and arm64 when empty. Only names programs;
	// none means all.
	Archs, Only []string
}

// Document is one about an image, to be kept beside the layout as well.
type Document struct {
	Name    string
	Content []byte
}

// Result is one index that was built.
type Result struct {
	Name, Tag, Digest string
	// Sizes are what a node downloads, in bytes, by architecture.
	Sizes      map[string]int64
	SBOMs      []Document
	Provenance Document
}

// Build builds the images into a new layout.
func Build(ctx context.Context, o Options) ([]Result, error) {
	if len(o.Archs) == 0 {
		o.Archs = []string{"amd64", "arm64"}
	}
	roots, err := moduleVersion(ctx, o.Source, "golang.org/x/crypto/x509roots/fallback")
	if err != nil {
		return nil, err
	}
	layout, err := image.Create(o.Layout)
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, p := range programs {
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		r, err := o.one(ctx, layout, p, roots)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", p.image(), err)
		}
		out = append(out, r)
	}
	return out, nil
}

// one builds one program's images, and adds them with what is said of them.
func (o Options) one(ctx context.Context, layout image.Layout, p program, roots string) (Result, error) {
	r := Result{Name: p.image(), Tag: version.Tag(o.Source.Version), Sizes: map[string]int64{}}
	var made []v1.Image
	var built []compile.Program
	var packages []debian.Package
	if p.git {
		packages = debian.Packages()
	}
	for _, arch := range o.Archs {
		program, err := o.Build(ctx, p.pkg, compile.Platform{OS: "linux", Arch: arch})
		if err != nil {
			return r, err
		}
		img, err := o.image(ctx, p, program)
		if err != nil {
			return r, err
		}
		if r.Sizes[arch], err = image.Size(img); err != nil {
			return r, err
		}
		sbom, err := bom.Subject{Source: o.Source, Name: p.image(), Program: program, Packages: packages, Roots: roots}.SBOM()
		if err != nil {
			return r, err
		}
		r.SBOMs = append(r.SBOMs, Document{p.image() + "-linux-" + arch + ".cdx.json", sbom})
		made, built = append(made, img), append(built, program)
	}
	return r, o.add(layout, &r, made, built, packages)
}

func (o Options) image(ctx context.Context, p program, built compile.Program) (v1.Image, error) {
	binary, err := os.ReadFile(built.Path)
	if err != nil {
		return nil, err
	}
	s := image.Spec{
		Name: p.image(), Program: p.name, Arch: built.Arch, Description: p.description,
		Version: o.Source.Version, Commit: o.Source.Commit, Time: o.Source.Time, Binary: binary,
	}
	if p.git {
		if s.Tools, err = debian.Files(ctx, built.Arch); err != nil {
			return nil, err
		}
	}
	return image.New(s)
}

// add adds an index of images to the layout, and attaches what is said of them.
func (o Options) add(layout image.Layout, r *Result, made []v1.Image, built []compile.Program, packages []debian.Package) error {
	index, err := image.Index(map[string]string{
		"org.opencontainers.image.version": o.Source.Version, "org.opencontainers.image.revision": o.Source.Commit,
	}, made)
	if err != nil {
		return err
	}
	if err := layout.Add(index, o.Registry, r.Name, r.Tag); err != nil {
		return err
	}
	about, err := image.Describe(index)
	if err != nil {
		return err
	}
	r.Digest = about.Digest.String()
	subject := bom.Artifact{Name: r.Name, Digest: map[string]string{about.Digest.Algorithm: about.Digest.Hex}}
	r.Provenance = Document{Name: r.Name + ".intoto.json"}
	r.Provenance.Content, err = bom.Provenance(o.Source, o.Registry, []bom.Artifact{subject}, built, packages)
	if err != nil {
		return err
	}
	if err := layout.Attach(about, r.Name, r.Provenance.Content, bom.ProvenanceType); err != nil {
		return err
	}
	for i, img := range made {
		about, err := image.Describe(img)
		if err != nil {
			return err
		}
		if err := layout.Attach(about, r.Name, r.SBOMs[i].Content, bom.SBOMType); err != nil {
			return err
		}
	}
	return nil
}

func moduleVersion(ctx context.Context, s source.Source, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	cmd.Dir, cmd.Stderr = s.Root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask go for the version of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
