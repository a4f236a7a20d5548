package image

import (
	"fmt"
	"maps"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Spec is one image for one architecture.
type Spec struct {
	// Name is that of the image, such as "gitbind-konnector"; Program that of the
	// program in it, which lies in /.
	Name, Program string
	Arch          string
	Description   string
	Version       string
	Commit        string
	Time          time.Time
	// Tools are files beside the program, in a layer of their own; Binary is the program.
	Tools  []File
	Binary []byte
}

// labels are what OCI has names for.
func (s Spec) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       s.Name,
		"org.opencontainers.image.description": s.Description,
		"org.opencontainers.image.version":     s.Version,
		"org.opencontainers.image.revision":    s.Commit,
		"org.opencontainers.image.created":     s.Time.Format(time.RFC3339),
	}
}

// New makes the image.
func New(s Spec) (v1.Image, error) {
	always, err := base()
	if err != nil {
		return nil, err
	}
	parts := []struct {
		by    string
		files []File
	}{
		{"user, certificates, /tmp", always},
		{"git and what it needs", s.Tools},
		{s.Program + " " + s.Version, []File{{Path: s.Program, Mode: 0o755, Content: s.Binary}}},
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: s.Arch, OS: "linux", Created: v1.Time{Time: s.Time},
		Config: v1.Config{
			User: User + ":" + User, Entrypoint: []string{"/" + s.Program}, WorkingDir: "/",
			Env: []string{"PATH=/usr/bin:/bin"}, Labels: s.labels(),
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if len(p.files) == 0 {
			continue
		}
		l, err := layer(p.files, s.Time)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: s.Time}, CreatedBy: p.by}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, History: history}); err != nil {
			return nil, err
		}
	}
	return mutate.Annotations(img, s.labels()).(v1.Image), nil
}

// Index is what has one name: the image for each architecture, in the order given.
func Index(annotations map[string]string, images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		config, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		platform := &v1.Platform{OS: config.OS, Architecture: config.Architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.Annotations(index, maps.Clone(annotations)).(v1.ImageIndex), nil
}

// Describe is the descriptor of an image or index.
func Describe(a mutate.Appendable) (v1.Descriptor, error) {
	mediaType, err := a.MediaType()
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := a.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	size, err := a.Size()
	return v1.Descriptor{MediaType: mediaType, Digest: digest, Size: size}, err
}

// Size is what a node downloads for an image, in bytes.
func Size(img v1.Image) (total int64, err error) {
	manifest, err := img.Manifest()
	if err != nil {
		return 0, fmt.Errorf("read the manifest: %w", err)
	}
	for _, l := range manifest.Layers {
		total += l.Size
	}
	return total, nil
}
