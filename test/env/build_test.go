package env

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestPartsAreComplete(t *testing.T) {
	source, err := sourceDir()
	fatal(t, err)
	entries := map[string]bool{}
	for _, p := range allParts() {
		version, entry, err := p.identify(source)
		fatal(t, err)
		if !strings.HasPrefix(version, "v") || entries[entry] {
			t.Errorf("%s: version %q, entry %q", p.name, version, entry)
		}
		entries[entry] = true
	}
}

// A part that is built on its first use would be built by the first test that starts a
// cluster.
func TestClustersNeedNoExtraPart(t *testing.T) {
	for _, p := range allParts() {
		if p.extra && (Options{Clusters: []string{"one"}, Crossplane: true, Dex: true}).needs(p) {
			t.Errorf("a cluster needs %s", p.name)
		}
	}
}

func TestEntryChangesWithItsInputs(t *testing.T) {
	b, p := helloBuilder(t)
	_, before, err := p.identify(b.source)
	fatal(t, err)
	p.ldflags = "-X main.name=other"
	_, flags, err := p.identify(b.source)
	fatal(t, err)
	fatal(t, os.WriteFile(filepath.Join(b.source, "hello", "go.sum"), []byte("\n"), 0o644))
	_, sum, err := p.identify(b.source)
	fatal(t, err)
	if before == flags || flags == sum {
		t.Errorf("entries %q, %q, %q are not distinct", before, flags, sum)
	}
}

func TestBuild(t *testing.T) {
	b, p := helloBuilder(t)
	p.ldflags = "-X main.name=VERSION"
	p.files = []string{"cluster/crds"}
	p.edits = []edit{{file: "main.go", old: `"hello "`, new: `"good day "`}}

	// What a build that was killed leaves does no harm.
	fatal(t, os.MkdirAll(filepath.Join(b.cache, ".building-hello", "hello"), 0o755))
	// Both find it missing; one builds, the other waits for it.
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := b.part(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	out := b.out.w.(*bytes.Buffer).String()
	if strings.Count(out, " built, ") != 1 || strings.Count(out, "was built by another process") != 1 {
		t.Errorf("progress:\n%s\nwant one build and one that waited", out)
	}
	_, entry, err := p.identify(b.source)
	fatal(t, err)
	said, err := exec.Command(filepath.Join(b.cache, entry, "hello")).Output()
	if err != nil || string(said) != "good day v1.0.0\n" {
		t.Errorf("the program says %q, %v", said, err)
	}
	if _, err := os.Stat(filepath.Join(b.cache, entry, "cluster", "crds", "crd.yaml")); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(b.cache, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBuildErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*part)
		want   string
	}{
		"the compiler's words":           {func(p *part) { p.edits = []edit{{"main.go", "fmt.Println", "fmt.Prnt"}} }, "undefined: fmt.Prnt"},
		"an edit that no longer matches": {func(p *part) { p.edits = []edit{{"main.go", "no such line", ""}} }, "adapt the edit to this version"},
		"a directory that is not there":  {func(p *part) { p.files = []string{"cluster/none"} }, "keep cluster/none of hello"},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := helloBuilder(t)
			c.change(&p)
			err := b.part(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(b.cache, "*hello-*")); len(left) > 0 {
				t.Errorf("left in the cache: %v", left)
			}
		})
	}
}

func TestAtLeast(t *testing.T) {
	for text, want := range map[string]bool{
		"Kubernetes v1.36.3":  true,
		"Kubernetes v1.37.0":  true,
		"Kubernetes v2.0.0":   true,
		"Kubernetes v1.35.9":  false,
		"etcd Version: 3.6.5": true,
		"no version at all":   false,
	} {
		if got := atLeast(text, [2]int{1, 36}); got != want {
			t.Errorf("atLeast(%q) = %v", text, got)
		}
	}
}

// helloBuilder is a builder with a part that is built in no time, from a module
// proxy of its own.
func helloBuilder(t *testing.T) (*builder, part) {
	t.Helper()
	proxy := t.TempDir()
	t.Setenv("GOPROXY", "file://"+proxy)
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw")
	writeModule(t, filepath.Join(proxy, "example.com", "hello", "@v"), map[string]string{
		"go.mod":                "module example.com/hello\n\ngo 1.26.0\n",
		"main.go":               "package main\n\nimport \"fmt\"\n\nvar name string\n\nfunc main() { fmt.Println(\"hello \" + name) }\n",
		"cluster/crds/crd.yaml": "kind: CustomResourceDefinition\n",
	})
	b := &builder{source: t.TempDir(), cache: t.TempDir(), out: &progress{w: &bytes.Buffer{}, n: 1, total: 1, began: time.Now()}}
	dir := filepath.Join(b.source, "hello")
	fatal(t, os.Mkdir(dir, 0o755))
	fatal(t, os.WriteFile(filepath.Join(dir, "go.mod"),
		[]byte("module parts/hello\n\ngo 1.26.0\n\ntool example.com/hello\n\nrequire example.com/hello v1.0.0\n"), 0o644))
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = dir
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	return b, part{name: "hello", dir: "hello", module: "example.com/hello"}
}

// writeModule writes version v1.0.0 of a module as a proxy keeps it.
func writeModule(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, content := range files {
		w, err := z.Create("example.com/hello@v1.0.0/" + name)
		fatal(t, err)
		_, err = w.Write([]byte(content))
		fatal(t, err)
	}
	fatal(t, z.Close())
	fatal(t, os.MkdirAll(dir, 0o755))
	for name, content := range map[string][]byte{
		"v1.0.0.info": []byte(`{"Version": "v1.0.0"}`),
		"v1.0.0.mod":  []byte(files["go.mod"]),
		"v1.0.0.zip":  archive.Bytes(),
	} {
		fatal(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
}

func TestAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	t.Setenv("PATH", t.TempDir())
	for name, version := range map[string]string{etcd: "etcd Version: 3.6.5", apiServer: "Kubernetes v1.35.0"} {
		fatal(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755))
	}
	for _, p := range allParts() {
		var said bytes.Buffer
		got := existing(t.Context(), p, &said)
		switch p.name {
		case etcd:
			if got != filepath.Join(dir, etcd) {
				t.Errorf("etcd: got %q, want the asset", got)
			}
		case apiServer:
			if got != "" || !strings.Contains(said.String(), "version 1.36 or later is needed") {
				t.Errorf("an API server that is too old: got %q, said %q", got, said.String())
			}
		default:
			if got != "" {
				t.Errorf("%s: got %q, want none", p.name, got)
			}
		}
	}
}
