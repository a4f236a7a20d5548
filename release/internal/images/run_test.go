package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/e2e/story"
	"gitbind.dev/test/env"
)

// launcher runs a program in the root file system of its image as a runtime does: its
// own mounts, nothing of the image can be written to, /tmp is empty, and it is the
// image's user with the image's environment. The environment's folder is the only
// other one there is.
const launcher = `#!/bin/sh
export ROOT=%[1]s DATA=%[2]s
chown -R %[3]s "$DATA"
exec unshare --mount --propagation private sh -ec '
mount --bind "$ROOT" "$ROOT"
mount -t tmpfs -o mode=1777 tmp "$ROOT/tmp"
mkdir -p "$ROOT$DATA" "$ROOT/dev" "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --rbind /proc "$ROOT/proc"
mount --bind "$DATA" "$ROOT$DATA"
mount --bind /etc/hosts "$ROOT/etc/hosts"
mount -o remount,bind,ro "$ROOT"
exec env -i %[4]s /usr/sbin/chroot --userspec=%[3]s --groups= "$ROOT" "$@"
' sh %[5]s "$@"
`

// machine has root file systems of images, and launchers of their programs.
type machine struct{ bin, data string }

// root unpacks an image, and writes the launcher of its program into bin.
func (m machine) root(t *testing.T, dir, name string, img v1.Image) string {
	t.Helper()
	files(t, img) // that all are of this architecture
	if err := unpack(img, dir); err != nil {
		t.Fatal(err)
	}
	for _, mount := range []string{"dev", "proc"} { // as a runtime makes them
		if err := os.MkdirAll(filepath.Join(dir, mount), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "etc", "hosts"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	config := configOf(t, img)
	m.launch(t, name, dir, config, config.Entrypoint)
	return dir
}

func (m machine) launch(t *testing.T, name, root string, config v1.Config, command []string) {
	t.Helper()
	script := fmt.Sprintf(launcher, root, m.data, config.User, strings.Join(config.Env, " "), strings.Join(command, " "))
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func configOf(t *testing.T, img v1.Image) v1.Config {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.Config
}

// unpack writes the file system of an image into a folder.
func unpack(img v1.Image, dir string) error {
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(at, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, at)
		default:
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, b, os.FileMode(h.Mode).Perm())
			}
		}
		if err != nil {
			return err
		}
	}
}

// TestImages_SlowStory has the programs of the images tell the whole story: people
// connect, bind, order, push and fetch. Those of another architecture than the machine's
// are emulated.
func TestImages_SlowStory(t *testing.T) {
	env.Slow(t)
	if os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("only root may make a root file system")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) { tellsStory(t, arch) })
	}
}

func tellsStory(t *testing.T, arch string) {
	t.Helper()
	top, err := os.MkdirTemp("", "gitbind-images-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	m := machine{bin: filepath.Join(top, "bin"), data: filepath.Join(top, "data")}
	for _, dir := range []string{m.bin, m.data} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := platform.Build(t.Context(), m.bin); err != nil {
		t.Fatal(err)
	}
	// The story looks into the repositories, which are another user's.
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "safe.directory")
	t.Setenv("GIT_CONFIG_VALUE_0", "*")
	built := build(t, checkout(t), []string{arch})
	roots := map[string]string{}
	for _, name := range []string{"konnector", "gitbridge", "backend"} {
		roots[name] = m.root(t, filepath.Join(top, name), name, built.image(t, "gitbind-"+name, arch))
	}
	skipUnlessExecutable(t, roots["konnector"], "/konnector", arch)

	p, err := platform.Start(t.Context(), platform.Options{Bin: m.bin, Dir: m.data, Postgres: true, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.LogTails(t)
		}
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := (&story.Story{Platform: p, Out: t.Output()}).Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, process := range map[string]*env.Process{"backend": p.Backend, "gitbridge": p.Bridge, "konnector": p.Konnector(env.App)} {
		runsIn(t, process, roots[name])
	}
	m.maintains(t, p, roots["backend"], configOf(t, built.image(t, "gitbind-backend", arch)))
}

// skipUnlessExecutable skips the test where the kernel does not run a static program of
// an image, since it is for another architecture.
func skipUnlessExecutable(t *testing.T, root, program, arch string) {
	t.Helper()
	if arch == runtime.GOARCH {
		return
	}
	cmd := exec.CommandContext(t.Context(), "/usr/sbin/chroot", root, program, "--help")
	out, err := cmd.CombinedOutput()
	switch cmd.ProcessState.ExitCode() {
	case 0:
	case 126, 127: // chroot did not find what can execute it
		t.Skipf("this machine does not run programs for %s: apt-get install --no-install-recommends qemu-user-static "+
			"binfmt-support; and if /proc/sys/fs/binfmt_misc is empty, mount -t binfmt_misc binfmt_misc there first", arch)
	default:
		t.Fatalf("%s for %s: %v\n%s", program, arch, err, out)
	}
}

// runsIn fails the test when a process is not the image's user in the image's root.
func runsIn(t *testing.T, p *env.Process, root string) {
	t.Helper()
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/root", p.PID()))
	if err != nil || at != root {
		t.Errorf("%s runs in %s (%v), want %s", p.Name, at, err, root)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil || !bytes.Contains(status, []byte("Uid:\t65532\t65532\t65532\t65532")) {
		t.Errorf("%s runs as another user (%v):\n%s", p.Name, err, status)
	}
}

// maintains runs in the backend's image what the host runs after many pushes.
func (m machine) maintains(t *testing.T, p *platform.Platform, root string, config v1.Config) {
	t.Helper()
	repositories, err := filepath.Glob(filepath.Join(p.GitDir, "*", "HEAD"))
	if err != nil || len(repositories) == 0 {
		repositories, err = filepath.Glob(filepath.Join(p.GitDir, "*", "*", "HEAD"))
	}
	if err != nil || len(repositories) == 0 {
		t.Fatalf("no repository in %s: %v", p.GitDir, err)
	}
	m.launch(t, "git-in-image", root, config, []string{"/bin/sh"})
	for _, args := range []string{"repack -d -q --geometric=2 --write-midx", "gc --quiet", "fsck"} {
		script := fmt.Sprintf("ulimit -d 524288 && ulimit -t 600 && exec git -C %s -c safe.directory=* %s", filepath.Dir(repositories[0]), args)
		if out, err := exec.CommandContext(t.Context(), filepath.Join(m.bin, "git-in-image"), "-c", script).CombinedOutput(); err != nil {
			t.Errorf("git %s: %v\n%s", args, err, out)
		}
	}
}
