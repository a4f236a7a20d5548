// Package plugin packs the kubectl plugin for each platform, and writes the manifest with
// which krew installs it.
package plugin

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/source"
)

// Platforms are those that the plugin is built for.
var Platforms = []compile.Platform{
	{OS: "linux", Arch: "amd64"},
	{OS: "linux", Arch: "arm64"},
	{OS: "darwin", Arch: "amd64"},
	{OS: "darwin", Arch: "arm64"},
	{OS: "windows", Arch: "amd64"},
	{OS: "windows", Arch: "arm64"},
}

// Archive is the plugin for one platform, packed.
type Archive struct {
	compile.Program
	// File is its name, Binary that of the program in it.
	File, Binary string
	SHA256       string
}

// file is what an archive holds.
type file struct {
	name    string
	mode    int64
	content []byte
}

// Build builds and packs the plugin for the platforms, into a folder.
func Build(ctx context.Context, b compile.Builder, platforms []compile.Platform, dir string) ([]Archive, error) {
	license, err := os.ReadFile(filepath.Join(b.Source.Root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var out []Archive
	for _, p := range platforms {
		built, err := b.Build(ctx, "./konnector/cmd/kubectl-gitbind", p)
		if err != nil {
			return nil, err
		}
		program, err := os.ReadFile(built.Path)
		if err != nil {
			return nil, err
		}
		a := Archive{Program: built, Binary: filepath.Base(built.Path)}
		files := []file{{"LICENSE", 0o644, license}, {a.Binary, 0o755, program}}
		pack, suffix := tarGz, ".tar.gz"
		if p.OS == "windows" {
			pack, suffix = zipped, ".zip"
		}
		a.File = fmt.Sprintf("kubectl-gitbind-%s-%s%s", b.Source.Version, p, suffix)
		packed, err := pack(files, b.Source)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", a.File, err)
		}
		sum := sha256.Sum256(packed)
		a.SHA256 = hex.EncodeToString(sum[:])
		if err := os.WriteFile(filepath.Join(dir, a.File), packed, 0o644); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

func tarGz(files []file, s source.Source) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: s.Time, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := compressed.Close() // which writes the rest
	return out.Bytes(), err
}

func zipped(files []file, s source.Source) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		part, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: s.Time})
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// Checksums are the archives' as sha256sum -c reads them.
func Checksums(archives []Archive) []byte {
	var out strings.Builder
	for _, a := range archives {
		fmt.Fprintf(&out, "%s  %s\n", a.SHA256, a.File)
	}
	return []byte(out.String())
}
