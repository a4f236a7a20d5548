// Package debian takes single files out of pinned Debian packages, for other
// architectures than this machine's too. It installs nothing, and changes nothing of the
// system's apt: apt-get gets folders of its own.
package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gitbind.dev/release/internal/image"
)

// Package is one pinned package.
type Package struct {
	Name, Version string
	// SHA256 of the package's file, by architecture.
	SHA256 map[string]string
	// files are patterns of those that are taken, beside the copyright.
	files []string
}

// Packages are those that the image of the backend has files of.
func Packages() []Package { return packages }

// Sources is the file that says where the machine gets Debian's packages.
const Sources = "/etc/apt/sources.list.d/debian.sources"

// Files are the wanted files of all packages for one architecture, and what scanners
// look for: which packages they are of.
func Files(ctx context.Context, arch string) ([]image.File, error) {
	cache, err := fetch(ctx, arch)
	if err != nil {
		return nil, err
	}
	release := "NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=\"" + Release + "\"\n"
	files := []image.File{{Path: "etc/os-release", Mode: 0o644, Content: []byte(release)}}
	for _, p := range packages {
		of, err := p.read(ctx, p.path(cache, arch))
		if err != nil {
			return nil, fmt.Errorf("read %s for %s: %w", p.Name, arch, err)
		}
		files = append(files, of...)
	}
	return files, nil
}

func (p Package) path(cache, arch string) string { return filepath.Join(cache, p.SHA256[arch]+".deb") }

// read takes the wanted files out of a package.
func (p Package) read(ctx context.Context, deb string) ([]image.File, error) {
	control, err := dpkg(ctx, "--field", deb)
	if err != nil {
		return nil, err
	}
	content, err := dpkg(ctx, "--fsys-tarfile", deb)
	if err != nil {
		return nil, err
	}
	files := []image.File{{Path: "var/lib/dpkg/status.d/" + p.Name, Mode: 0o644, Content: control}}
	wanted := append(slices.Clone(p.files), "usr/share/doc/"+p.Name+"/copyright")
	found := map[string]bool{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		f := image.File{Path: path.Clean(h.Name), Mode: h.Mode & 0o755, Link: h.Linkname}
		pattern := slices.IndexFunc(wanted, func(p string) bool { ok, _ := path.Match(p, f.Path); return ok })
		if pattern < 0 || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeSymlink {
			continue
		}
		if f.Content, err = io.ReadAll(r); err != nil {
			return nil, err
		}
		found[wanted[pattern]] = true
		files = append(files, f)
	}
	for _, w := range wanted {
		if !found[w] {
			return nil, fmt.Errorf("it has no %s", w)
		}
	}
	return files, nil
}

func dpkg(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "dpkg-deb", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("dpkg-deb %s: %w", args[0], err)
	}
	return out, nil
}

// fetch downloads the packages that the cache has not, checks them, and says where the
// cache is.
func fetch(ctx context.Context, arch string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "gitbind", "debian")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	var missing []Package
	for _, p := range packages {
		if _, err := os.Stat(p.path(cache, arch)); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return cache, nil
	}
	dir, err := os.MkdirTemp(cache, "apt-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := download(ctx, dir, arch, missing); err != nil {
		return "", err
	}
	for _, p := range missing {
		if err := p.keep(dir, cache, arch); err != nil {
			return "", err
		}
	}
	return cache, nil
}

// download has apt-get put packages into a folder.
func download(ctx context.Context, dir, arch string, missing []Package) error {
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	args := []string{"download"}
	for _, p := range missing {
		args = append(args, p.Name+":"+arch+"="+p.Version)
	}
	for _, args := range [][]string{{"update"}, args} {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q",
			"-o", "Dir::State=" + dir + "/state", "-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache=" + dir + "/cache",
			"-o", "Dir::Etc::SourceParts=/dev/null", "-o", "Dir::Etc::SourceList=" + Sources,
			"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures::=" + arch, "-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=",
		}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%sWhen a version is no longer there, pin the present one in release/internal/debian/packages.go", args[0], err, out)
		}
	}
	return nil
}

// keep moves a package into the cache, if it is the one that was pinned.
func (p Package) keep(dir, cache, arch string) error {
	name := fmt.Sprintf("%s_%s_%s.deb", p.Name, strings.ReplaceAll(p.Version, ":", "%3a"), arch)
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != p.SHA256[arch] {
		return fmt.Errorf("%s has the SHA256 %s, want %s", name, got, p.SHA256[arch])
	}
	return os.Rename(filepath.Join(dir, name), p.path(cache, arch))
}
