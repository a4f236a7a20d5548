package image

import (
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What the layout's index says of each entry.
const (
	// RefName and ContainerdName are read by programs that import a layout: the name
	// with the tag, and the one that a kubelet asks containerd for.
	RefName        = "org.opencontainers.image.ref.name"
	ContainerdName = "io.containerd.image.name"
	// Repository is the name of the image that an entry is, or says something of.
	Repository = "dev.gitbind.repository"
)

// Layout is an OCI layout on disk, which is made from its beginning.
type Layout struct{ path layout.Path }

// Create makes a layout in the place of what is there.
func Create(dir string) (Layout, error) {
	if err := os.RemoveAll(dir); err != nil {
		return Layout{}, err
	}
	p, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return Layout{}, fmt.Errorf("make the layout %s: %w", dir, err)
	}
	return Layout{p}, nil
}

// Add adds an index under its name and tag. registry may be empty.
func (l Layout) Add(index v1.ImageIndex, registry, name, tag string) error {
	where := "docker.io/library/"
	if registry != "" {
		where = registry + "/"
	}
	return l.path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		RefName: name + ":" + tag, ContainerdName: where + name + ":" + tag, Repository: name,
	}))
}

// Attach adds a document about an image or index, as OCI's referrers are: a manifest with
// that subject.
func (l Layout) Attach(subject v1.Descriptor, name string, content []byte, mediaType types.MediaType) error {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mediaType)
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(content, mediaType), MediaType: mediaType})
	if err != nil {
		return err
	}
	img = mutate.Subject(img, subject).(v1.Image)
	return l.path.AppendImage(img, layout.WithAnnotations(map[string]string{Repository: name}))
}
