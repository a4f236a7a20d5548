package plugin

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"gitbind.dev/release/internal/compile"
	"gitbind.dev/release/internal/source"
	"gitbind.dev/test/env"
)

// TestThePluginInItsArchiveSaysItsVersion packs it for this machine, and unpacks and
// runs it as its user would.
func TestThePluginInItsArchiveSaysItsVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program: not with -short")
	}
	t.Parallel()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	s := source.Source{Root: root, Version: "v1.2.3", Time: time.Unix(1700000000, 0).UTC()}
	b := compile.Builder{Source: s, Registry: "registry.example.com/gitbind", Dir: t.TempDir()}
	dir := t.TempDir()
	archives, err := Build(t.Context(), b, []compile.Platform{{OS: runtime.GOOS, Arch: runtime.GOARCH}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), Checksums(archives), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, command := range map[string]string{
		"v1.2.3":                         "sha256sum -c SHA256SUMS >&2 && tar xzf " + archives[0].File + " && ./kubectl-gitbind version --client",
		"registry.example.com/gitbind\"": "mkdir 2 && tar -C 2 -xzf " + archives[0].File + " && 2/kubectl-gitbind connect --help",
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s says %q (%v), want %s", command, out, err, want)
		}
	}
}

// TestKrewTakesTheManifest checks what krew's own validation does: names, versions,
// platforms, sums, and that the program is among the files.
func TestKrewTakesTheManifest(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v1.2.3": "v1.2.3", "v1.2.3-4-gabcdef012345": "v1.2.3-4-gabcdef012345", "abcdef012345-dirty": "v0.0.0-abcdef012345-dirty"} {
		var archives []Archive
		for _, p := range Platforms {
			archives = append(archives, Archive{Program: compile.Program{Platform: p}, File: p.String() + ".tar.gz", Binary: "kubectl-gitbind", SHA256: strings.Repeat("0a", 32)})
		}
		text, err := Krew(source.Source{Version: version}, "https://example.com/releases", archives)
		if err != nil {
			t.Fatal(err)
		}
		var m manifest
		if err := yaml.UnmarshalStrict(text, &m); err != nil {
			t.Fatal(err)
		}
		if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata["name"] != "gitbind" || m.Spec.ShortDescription == "" {
			t.Errorf("%+v is no plugin for krew", m)
		}
		if m.Spec.Version != want || len(m.Spec.Platforms) != 6 {
			t.Errorf("version %s for %d platforms, want %s for 6", m.Spec.Version, len(m.Spec.Platforms), want)
		}
		for _, p := range m.Spec.Platforms {
			if !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(p.SHA256) || !strings.HasPrefix(p.URI, "https://example.com/releases/") || p.Files[0].From != p.Bin || p.Files[0].To != "." {
				t.Errorf("krew would refuse %+v", p)
			}
		}
	}
}

func TestAnArchiveIsReproducible(t *testing.T) {
	t.Parallel()
	s := source.Source{Time: time.Unix(1700000000, 0).UTC()}
	files := []file{{"LICENSE", 0o644, []byte("as is")}, {"kubectl-gitbind.exe", 0o755, []byte("a program")}}
	for _, pack := range []func([]file, source.Source) ([]byte, error){tarGz, zipped} {
		one, err := pack(files, s)
		if err != nil {
			t.Fatal(err)
		}
		two, err := pack(files, s)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("packed twice, it differs (%v)", err)
		}
	}
	packed, err := zipped(files, s)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed))); err != nil || len(r.File) != 2 {
		t.Errorf("the zip archive cannot be read: %v", err)
	}
}
