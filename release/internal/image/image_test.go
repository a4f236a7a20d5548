package image

import (
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func spec() Spec {
	return Spec{
		Name: "gitbind-it", Program: "it", Arch: "arm64", Version: "v1.2.3", Commit: "abc", Time: time.Unix(1700000000, 0).UTC(),
		Binary: []byte("a program"),
		Tools:  []File{{Path: "usr/bin/tool", Mode: 0o755, Content: []byte("a tool")}, {Path: "bin/sh", Link: "dash"}},
	}
}

func digest(t *testing.T, s Spec) v1.Hash {
	t.Helper()
	img, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheSameFilesGiveTheSameDigest(t *testing.T) {
	t.Parallel()
	first := digest(t, spec())
	turned := spec()
	turned.Tools[0], turned.Tools[1] = turned.Tools[1], turned.Tools[0]
	if again := digest(t, turned); again != first {
		t.Errorf("the same files in another order give %s, not %s", again, first)
	}
	other := spec()
	other.Binary = []byte("another program")
	if digest(t, other) == first {
		t.Error("another program gives the same digest")
	}
}

func TestALayoutHasTheImageAndWhatIsSaidOfIt(t *testing.T) {
	t.Parallel()
	img, err := New(spec())
	if err != nil {
		t.Fatal(err)
	}
	index, err := Index(nil, []v1.Image{img})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	l, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(index, "", "gitbind-it", "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	about, err := Describe(img)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Attach(about, "gitbind-it", []byte("{}"), "application/json"); err != nil {
		t.Fatal(err)
	}
	read, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(read); err != nil {
		t.Error(err)
	}
	manifest, err := read.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Manifests[0].Annotations[ContainerdName]; got != "docker.io/library/gitbind-it:v1.2.3" {
		t.Errorf("containerd would call it %s", got)
	}
	if len(manifest.Manifests) != 2 || manifest.Manifests[1].ArtifactType != "application/json" {
		t.Errorf("the layout has %+v", manifest.Manifests)
	}
}
