package node

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"gitbind.dev/test/env"
)

// releases are the versions that are built: all of the same code, as there is one only.
var releases = []string{"v0.1.0", "v0.2.0"}

// built is where the programs and images are that a test of this package runs.
type built struct{ dir string }

// bin has the programs of a release.
func (b built) bin(release string) string { return filepath.Join(b.dir, release, "bin") }

// images is an archive with the images of a release.
func (b built) images(release string) string { return filepath.Join(b.dir, release, "images.tar") }

// others are archives with what nodes need beside.
func (b built) others() []string {
	return []string{filepath.Join(b.dir, "pause.tar"), filepath.Join(b.dir, "coredns.tar")}
}

// build builds all of it as make and docs/installing.md do. It needs a network, as nothing
// else in this package does.
func (b built) build(ctx context.Context) error {
	root, err := env.Root()
	if err != nil {
		return err
	}
	run := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stderr, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s %v: %w", name, args, err)
		}
		return nil
	}
	for _, release := range releases {
		dir := filepath.Join(b.dir, release)
		images := filepath.Join(dir, "images")
		for _, command := range [][]string{
			{"make", "--no-print-directory", "build", "VERSION=" + release, "REGISTRY=", "BIN=" + b.bin(release)},
			{"go", "run", "./release/cmd/release", "images", "--version", release, "--arch", runtime.GOARCH, "--out", dir},
			{"tar", "-C", images, "-cf", b.images(release), "."},
		} {
			if err := run(command[0], command[1:]...); err != nil {
				return err
			}
		}
	}
	parts := map[string]string{}
	for _, part := range env.NodeParts() {
		if parts[part], err = env.BuildPart(ctx, part, os.Stderr); err != nil {
			return err
		}
	}
	pause := filepath.Join(b.dir, "pause")
	if err := run("go", "build", "-o", pause, "./test/e2e/node/pause"); err != nil {
		return err
	}
	for i, image := range []struct{ name, program string }{{env.PauseImage, pause}, {env.CoreDNSImage, parts["coredns"]}} {
		if err := pack(b.others()[i], image.name, image.program); err != nil {
			return fmt.Errorf("image %s: %w", image.name, err)
		}
	}
	return nil
}

// pack writes an image with one program into an archive.
func pack(archive, image, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{"/program"}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	tag, err := name.NewTag(image)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, img)
}
