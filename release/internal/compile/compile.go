// Package compile builds the programs of a release so that the same commit, built by the
// same version of Go, gives the same bytes on each machine and in each folder.
package compile

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"gitbind.dev/release/internal/source"
)

// Platform is what a program runs on.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "-" + p.Arch }

// Program is what was built.
type Program struct {
	Platform
	Path string
	// Info has the modules that are in it, and the version of Go.
	Info *buildinfo.BuildInfo
}

// Builder builds programs of one source into a folder.
type Builder struct {
	Source source.Source
	// Registry is where the images of this version will be; see version.Registry.
	Registry string
	Dir      string
}

// Build builds one package, such as "./konnector/cmd/konnector".
func (b Builder) Build(ctx context.Context, pkg string, p Platform) (Program, error) {
	name := filepath.Base(pkg)
	if p.OS == "windows" {
		name += ".exe"
	}
	out := Program{Platform: p, Path: filepath.Join(b.Dir, p.String(), name)}
	const version = "gitbind.dev/gitbridge/version."
	flags := fmt.Sprintf("-s -w -buildid= -X %slinked=%s -X %sregistry=%s", version, b.Source.Version, version, b.Registry)
	// The version comes from the linker alone: what the go command reads of a checkout
	// would differ in a source archive.
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", out.Path, pkg)
	cmd.Dir, cmd.Stderr = b.Source.Root, os.Stderr
	// What a person set for their own builds must not be in a release.
	cmd.Env = append(os.Environ(), "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return out, fmt.Errorf("build %s for %s: %w", pkg, p, err)
	}
	var err error
	out.Info, err = buildinfo.ReadFile(out.Path)
	if err != nil {
		return out, fmt.Errorf("read what is in %s: %w", out.Path, err)
	}
	return out, nil
}
