// Package bundle makes the folder of a release: images, the kubectl plugin for all
// platforms, manifests, kinds, SBOMs, provenance, sums and notes. It publishes nothing.
package bundle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/filters/imagetag"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"gitbind.dev/gitbridge/version"
	"gitbind.dev/release/internal/bom"
	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/images"
	"gitbind.dev/release/internal/plugin"
)

// Options say what is released where to.
type Options struct {
	compile.Builder
	// Out is the folder. Downloads is the URL under which its files will be had.
	Out, Downloads string
}

// overlays are the manifests that are given to others, beside those that the plugin has
// in it.
var overlays = []string{"control-plane", "konnector", "crossplane-api"}

// Make makes all of it.
func Make(ctx context.Context, o Options) error {
	for _, dir := range []string{"manifests", "crds", "sbom", "provenance"} {
		if err := os.RemoveAll(filepath.Join(o.Out, dir)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(o.Out, dir), 0o755); err != nil {
			return err
		}
	}
	built, err := images.Build(ctx, images.Options{Builder: o.Builder, Layout: filepath.Join(o.Out, "images")})
	if err != nil {
		return err
	}
	for _, r := range built {
		for _, d := range r.SBOMs {
			if err := o.write("sbom/"+d.Name, d.Content); err != nil {
				return err
			}
		}
		if err := o.write("provenance/"+r.Provenance.Name, r.Provenance.Content); err != nil {
			return err
		}
	}
	if err := o.plugin(ctx); err != nil {
		return err
	}
	for _, overlay := range overlays {
		text, err := Render(filepath.Join(o.Source.Root, "kustomize", overlay), o.Registry, o.Source.Version)
		if err != nil {
			return err
		}
		if err := o.write("manifests/"+overlay+".yaml", text); err != nil {
			return err
		}
	}
	for _, of := range []string{"app", "control-plane"} {
		text, err := Render(filepath.Join(o.Source.Root, "kustomize", "crds", of), "", "")
		if err != nil {
			return err
		}
		if err := o.write("crds/"+of+".yaml", text); err != nil {
			return err
		}
	}
	notes, err := o.notes(ctx, built)
	if err != nil {
		return err
	}
	return o.write("NOTES.md", notes)
}

func (o Options) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(o.Out, filepath.FromSlash(name)), content, 0o644)
}

// plugin packs the kubectl plugin, and writes what is said of it.
func (o Options) plugin(ctx context.Context) error {
	archives, err := plugin.Build(ctx, o.Builder, plugin.Platforms, o.Out)
	if err != nil {
		return err
	}
	var subjects []bom.Artifact
	var programs []compile.Program
	for _, a := range archives {
		subjects = append(subjects, bom.Artifact{Name: a.File, Digest: map[string]string{"sha256": a.SHA256}})
		programs = append(programs, a.Program)
		sbom, err := bom.Subject{Source: o.Source, Name: "kubectl-gitbind", Program: a.Program}.SBOM()
		if err != nil {
			return err
		}
		if err := o.write("sbom/kubectl-gitbind-"+a.String()+".cdx.json", sbom); err != nil {
			return err
		}
	}
	provenance, err := bom.Provenance(o.Source, o.Registry, subjects, programs, nil)
	if err != nil {
		return err
	}
	krew, err := plugin.Krew(o.Source, o.Downloads, archives)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"provenance/kubectl-gitbind.intoto.json": provenance, "gitbind.yaml": krew, "SHA256SUMS": plugin.Checksums(archives),
	} {
		if err := o.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// Render is what kustomize makes of a folder, with our images in a registry (if any) and
// of a version; as they are when that is empty.
func Render(dir, registry, of string) ([]byte, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	for _, name := range []string{"gitbind-konnector", "gitbind-gitbridge", "gitbind-backend"} {
		if of == "" {
			break
		}
		rename := imagetag.Filter{
			ImageTag: types.Image{Name: name, NewName: strings.TrimPrefix(registry+"/"+name, "/"), NewTag: version.Tag(of)},
			FsSlice:  types.FsSlice{{Path: "spec/template/spec/containers[]/image"}},
		}
		if err := objects.ApplyFilter(rename); err != nil {
			return nil, fmt.Errorf("name the images of %s: %w", dir, err)
		}
	}
	return objects.AsYaml()
}

// notes are what changed, and what the images are.
func (o Options) notes(ctx context.Context, built []images.Result) ([]byte, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "# gitbind %s\n\nCommit %s. [How to install it](docs/installing.md)\n\n| image | digest | amd64 | arm64 |\n|---|---|---|---|\n", o.Source.Version, o.Source.Commit)
	for _, r := range built {
		fmt.Fprintf(&out, "| `%s` | `%s` | %.1f MB | %.1f MB |\n", strings.TrimPrefix(o.Registry+"/"+r.Name+":"+r.Tag, "/"), r.Digest, float64(r.Sizes["amd64"])/1e6, float64(r.Sizes["arm64"])/1e6)
	}
	since, changes, err := o.Source.Changes(ctx)
	if err != nil {
		return nil, err
	}
	if since != "" {
		fmt.Fprintf(&out, "\n## Changes since %s\n\n", since)
		for _, c := range changes {
			fmt.Fprintf(&out, "- %s\n", c)
		}
	}
	return []byte(out.String()), nil
}
