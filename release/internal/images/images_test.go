package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"gitbind.dev/release/internal/bom"
	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/image"
	"gitbind.dev/release/internal/images"
	"gitbind.dev/release/internal/source"
	"gitbind.dev/test/env"
)

// built is a layout that was built.
type built struct {
	dir     string
	results []images.Result
}

// build builds images of a checkout as make images does.
func build(t *testing.T, root string, archs []string, only ...string) built {
	t.Helper()
	s, err := source.Read(t.Context(), root, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	b := built{dir: filepath.Join(t.TempDir(), "images")}
	b.results, err = images.Build(t.Context(), images.Options{
		Builder: compile.Builder{Source: s, Registry: "registry.example.com/gitbind", Dir: t.TempDir()},
		Layout:  b.dir, Archs: archs, Only: only,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func checkout(t *testing.T) string {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func (b built) index(t *testing.T) (v1.ImageIndex, *v1.IndexManifest) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest
}

// image is the one of that name for an architecture.
func (b built) image(t *testing.T, name, arch string) v1.Image {
	t.Helper()
	top, manifest := b.index(t)
	at := slices.IndexFunc(manifest.Manifests, func(d v1.Descriptor) bool { return d.Annotations[image.RefName] == name+":v1.2.3" })
	if at < 0 {
		t.Fatalf("there is no %s in the layout", name)
	}
	index, err := top.ImageIndex(manifest.Manifests[at].Digest)
	if err != nil {
		t.Fatal(err)
	}
	of, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range of.Manifests {
		if d.Platform.OS == "linux" && d.Platform.Architecture == arch {
			img, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatalf("there is no %s for %s", name, arch)
	return nil
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// files are the paths of all that is in an image but folders. It fails the test for what
// others than root can write to, and for programs of another architecture.
func files(t *testing.T, img v1.Image) (paths []string) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(paths)
			return paths
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeDir {
			paths = append(paths, h.Name)
		}
		if h.Uid != 0 || h.Mode&0o022 != 0 && h.Typeflag == tar.TypeReg {
			t.Errorf("%s can be written to by others than root", h.Name)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := elf.NewFile(bytes.NewReader(b)); err == nil && f.Machine != machines[config.Architecture] {
			t.Errorf("%s is for %s, in an image for %s", h.Name, f.Machine, config.Architecture)
		}
	}
}

// TestAnImageIsMinimalAndDescribed builds one image, for this machine's architecture,
// which the tests' own build has compiled already.
func TestAnImageIsMinimalAndDescribed(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program: not with -short")
	}
	t.Parallel()
	one := build(t, checkout(t), []string{runtime.GOARCH}, "gitbridge")
	img := one.image(t, "gitbind-gitbridge", runtime.GOARCH)
	config := configOf(t, img)
	if config.User != "65532:65532" || !slices.Equal(config.Entrypoint, []string{"/gitbridge"}) {
		t.Errorf("it runs %v as %s", config.Entrypoint, config.User)
	}
	if config.Labels["org.opencontainers.image.version"] != "v1.2.3" || len(config.Labels["org.opencontainers.image.revision"]) != 40 {
		t.Errorf("its labels are %v", config.Labels)
	}
	want := []string{"etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "gitbridge"}
	if got := files(t, img); !slices.Equal(got, want) {
		t.Errorf("it has %v, want %v: no shell, and nothing that is not needed", got, want)
	}
	one.described(t, img)
}

// described fails the test when what is said of an image is not attached to it, or is
// not what was built.
func (b built) described(t *testing.T, img v1.Image) {
	t.Helper()
	top, manifest := b.index(t)
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	subjects := map[string]string{}
	for _, d := range manifest.Manifests {
		if d.ArtifactType == "" {
			continue
		}
		document, err := top.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		m, err := document.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		subjects[d.ArtifactType] = m.Subject.Digest.String()
	}
	if subjects[bom.SBOMType] != digest.String() || subjects[bom.ProvenanceType] != b.results[0].Digest {
		t.Errorf("documents are attached to %v, not to %s and %s", subjects, digest, b.results[0].Digest)
	}
	var sbom cyclonedx.BOM
	if err := json.Unmarshal(b.results[0].SBOMs[0].Content, &sbom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range *sbom.Components {
		names = append(names, c.Name)
	}
	for _, want := range []string{"stdlib", "sigs.k8s.io/controller-runtime", "github.com/go-git/go-git/v5"} {
		if !slices.Contains(names, want) {
			t.Errorf("the SBOM has no %s", want)
		}
	}
	for _, never := range []string{"github.com/google/go-containerregistry", "git", "pgregory.net/rapid"} {
		if slices.Contains(names, never) {
			t.Errorf("the SBOM has %s, which is not in the image", never)
		}
	}
	if p := string(b.results[0].Provenance.Content); !strings.Contains(p, `"gitCommit"`) || !strings.Contains(p, strings.TrimPrefix(b.results[0].Digest, "sha256:")) {
		t.Errorf("the provenance names no commit or not the image:\n%s", p)
	}
}

// TestImages_SlowTwoCheckoutsGiveOneDigest builds all images for both architectures, here
// and in a clone in another folder with another history of objects.
func TestImages_SlowTwoCheckoutsGiveOneDigest(t *testing.T) {
	env.Slow(t)
	clone := filepath.Join(t.TempDir(), "elsewhere", "clone")
	root := checkout(t)
	git(t, root, "clone", "--quiet", "--depth=1", "file://"+root, clone)
	if s, err := source.Read(t.Context(), root, ""); err != nil || s.Dirty {
		t.Skipf("the checkout has changes that a clone does not have (%v): commit them first", err)
	}
	here, there := build(t, root, nil), build(t, clone, nil)
	for i, r := range here.results {
		if r.Digest != there.results[i].Digest {
			t.Errorf("%s is %s here and %s there", r.Name, r.Digest, there.results[i].Digest)
		}
		t.Logf("%s %s %v", r.Name, r.Digest, r.Sizes)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		backend := files(t, here.image(t, "gitbind-backend", arch))
		for _, want := range []string{"backend", "bin/sh", "bin/true", "usr/bin/git", "var/lib/dpkg/status.d/git"} {
			if !slices.Contains(backend, want) {
				t.Errorf("the backend's image for %s has no %s", arch, want)
			}
		}
		if len(backend) > 40 {
			t.Errorf("the backend's image for %s has %d files: %v", arch, len(backend), backend)
		}
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
}
