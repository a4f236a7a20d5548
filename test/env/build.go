package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Build builds every part that is always used and that the cache does not hold
// yet, and says on
// progress what it does. On a machine with empty caches this takes a quarter
// of an hour on two cores; afterwards it takes no time.
func Build(ctx context.Context, progress io.Writer) error {
	_, err := build(ctx, progress, func(p part) bool { return !p.extra })
	return err
}

// BuildPart builds one part, if need be, and returns the path of its program.
func BuildPart(ctx context.Context, name string, progress io.Writer) (string, error) {
	found, err := build(ctx, progress, func(p part) bool { return p.name == name })
	if err == nil && found[name] == "" {
		err = fmt.Errorf("there is no part %q", name)
	}
	return found[name], err
}

// CertManagerCRDs is a folder with the kinds of cert-manager, which need not be built.
func CertManagerCRDs(ctx context.Context) (string, error) {
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(allParts(), func(p part) bool { return p.name == certManager })
	module, err := (&builder{source: source}).moduleDir(ctx, allParts()[i])
	return filepath.Join(module, "deploy", "crds"), err
}

// CacheDir is where the built parts are kept. It can be removed at any time
// when no environment runs.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	return filepath.Join(dir, "gitbind", "parts"), nil
}

// programs maps a part's name to its program.
type programs map[string]string

// files is a directory of the part's source that is kept beside its program.
func (p programs) files(part, dir string) string {
	return filepath.Join(filepath.Dir(p[part]), filepath.FromSlash(dir))
}

type builder struct {
	source, cache string
	out           *progress
}

func build(ctx context.Context, w io.Writer, wanted func(part) bool) (programs, error) {
	source, err := sourceDir()
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	found := programs{}
	var missing []part
	for _, p := range allParts() {
		if !wanted(p) {
			continue
		}
		if path := existing(ctx, p, w); path != "" {
			found[p.name] = path
			continue
		}
		_, entry, err := p.identify(source)
		if err != nil {
			return nil, err
		}
		found[p.name] = filepath.Join(cache, entry, p.name)
		if _, err := os.Stat(found[p.name]); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	b := &builder{source: source, cache: cache, out: &progress{w: w, total: len(missing), began: time.Now()}}
	b.out.printf("Building %d parts from source, once, into %s", len(missing), cache)
	if err := b.checkTools(missing); err != nil {
		return nil, err
	}
	for _, p := range missing {
		b.out.n++
		if err := b.part(ctx, p); err != nil {
			return nil, err
		}
	}
	b.out.printf("All parts are built, in %s", b.out.elapsed())
	return found, nil
}

// checkTools says what is missing before anybody has waited for a compiler.
func (b *builder) checkTools(parts []part) error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("build the parts: there is no go on PATH: install Go 1.26 or later")
	}
	for _, p := range parts {
		if !p.cgo {
			continue
		}
		out, err := exec.Command("go", "env", "CC").Output()
		if err != nil {
			return fmt.Errorf("ask go for the C compiler: %w", err)
		}
		cc := strings.Fields(string(out))
		if len(cc) == 0 {
			return fmt.Errorf("build %s: no C compiler is known: install gcc or clang, or set CC", p.name)
		}
		if _, err := exec.LookPath(cc[0]); err != nil {
			return fmt.Errorf("build %s: the C compiler %s is not on PATH: install gcc or clang, or set CC", p.name, cc[0])
		}
	}
	return nil
}

// part builds one part into a temporary directory and then renames it, so that
// what is in the cache is complete. One process at a time builds a part; the
// lock goes with the process that holds it.
func (b *builder) part(ctx context.Context, p part) error {
	version, entry, err := p.identify(b.source)
	if err != nil {
		return err
	}
	done, result := b.out.begin(p.name+" "+version), "failed"
	defer func() { done(result) }()
	unlock, err := lock(ctx, filepath.Join(b.cache, p.name+".lock"))
	if err != nil {
		return fmt.Errorf("wait for another build of %s: %w", p.name, err)
	}
	defer unlock()
	target := filepath.Join(b.cache, entry)
	if _, err := os.Stat(filepath.Join(target, p.name)); err == nil {
		result = "was built by another process"
		return nil
	}
	tmp := filepath.Join(b.cache, ".building-"+p.name)
	// Somebody who was killed may have left it. We hold the lock.
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := b.compile(ctx, p, version, tmp); err != nil {
		return err
	}
	// What is there now is half an entry, left by somebody who removed files.
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.Rename(tmp, target); err != nil {
		return err
	}
	result = "built"
	return nil
}

func (b *builder) compile(ctx context.Context, p part, version, tmp string) error {
	module, err := b.moduleDir(ctx, p)
	if err != nil {
		return err
	}
	args := []string{"build", "-mod=readonly", "-buildvcs=false", "-tags=" + p.tags,
		"-ldflags=-s -w " + strings.ReplaceAll(p.ldflags, "VERSION", version), "-o", filepath.Join(tmp, p.name)}
	if len(p.edits) > 0 {
		scratch := filepath.Join(tmp, ".source")
		modfile, err := b.editSource(p, module, scratch)
		if err != nil {
			return fmt.Errorf("edit the source of %s: %w", p.name, err)
		}
		defer os.RemoveAll(scratch)
		args = append(args, "-modfile="+modfile)
	}
	program := p.module + p.pkg
	if p.own != "" {
		program = "."
	}
	if _, err := b.goTool(ctx, p, append(args, program)...); err != nil {
		return err
	}
	for _, dir := range p.files {
		if err := os.CopyFS(filepath.Join(tmp, filepath.FromSlash(dir)), os.DirFS(filepath.Join(module, dir))); err != nil {
			return fmt.Errorf("keep %s of %s: %w", dir, p.name, err)
		}
	}
	return nil
}

// moduleDir downloads the part's module, if need be, and says where it is.
func (b *builder) moduleDir(ctx context.Context, p part) (string, error) {
	out, err := b.goTool(ctx, p, "mod", "download", "-json", p.module)
	if err != nil {
		return "", err
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("read what go mod download says about %s: %w", p.module, err)
	}
	return m.Dir, nil
}

// goTool runs the go command in the part's module. Its error holds the end of
// what the command said.
func (b *builder) goTool(ctx context.Context, p part, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.source, p.dir)
	// Interrupted, go removes its work directory and ends its compilers.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	cgo := "CGO_ENABLED=0"
	if p.cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, collectSeldom, cgo)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("build %s: %w", p.name, context.Cause(ctx))
		}
		return nil, fmt.Errorf("build %s: go %s: %w\n%s\nTo see all of it: cd %s && %s go %s",
			p.name, args[0], err, indent(lastLines(stderr.Bytes(), 20)), cmd.Dir, cgo, strings.Join(quoted(args), " "))
	}
	return stdout.Bytes(), nil
}

// editSource copies the part's module into dir, edits it there, and writes a
// go.mod that makes go build take the copy. (Its -overlay refuses files of the
// module cache.)
func (b *builder) editSource(p part, module, dir string) (modfile string, err error) {
	source := filepath.Join(dir, "module")
	if err := os.CopyFS(source, os.DirFS(module)); err != nil {
		return "", err
	}
	for _, e := range p.edits {
		path := filepath.Join(source, filepath.FromSlash(e.file))
		src, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if n := bytes.Count(src, []byte(e.old)); n != 1 {
			return "", fmt.Errorf("%s holds %q %d times, not once: adapt the edit to this version", e.file, e.old, n)
		}
		if err := os.WriteFile(path, bytes.Replace(src, []byte(e.old), []byte(e.new), 1), 0o644); err != nil {
			return "", err
		}
	}
	modfile = filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(b.source, p.dir, name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" {
			content = fmt.Appendf(content, "\nreplace %s => %s\n", p.module, source)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return "", err
		}
	}
	return modfile, nil
}

func quoted(args []string) []string {
	q := make([]string, len(args))
	for i, a := range args {
		q[i] = a
		if strings.ContainsAny(a, " \t") {
			q[i] = "'" + a + "'"
		}
	}
	return q
}

// lock takes a lock between processes, and waits for it.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err := tryLock(path)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
