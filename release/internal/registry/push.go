// Package registry pushes a layout to a registry, with the credentials that docker and
// kubectl users have: ~/.docker/config.json and its credential helpers, or podman's
// auth.json.
package registry

import (
	"context"
	"fmt"
	"path"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"gitbind.dev/release/internal/image"
)

// Options say where to push what.
type Options struct {
	// Layout is the folder, Registry the registry and a folder of it.
	Layout, Registry string
	// PlainHTTP allows a registry without TLS on another machine.
	PlainHTTP bool
	// Tell gets the name of each image that was pushed.
	Tell func(string)
}

// Push pushes all images, each under its tag, and then what is said of them.
func Push(ctx context.Context, o Options) error {
	index, err := layout.ImageIndexFromPath(o.Layout)
	if err != nil {
		return fmt.Errorf("read the layout %s (make images builds it): %w", o.Layout, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range manifest.Manifests {
		if err := o.one(ctx, index, d); err != nil {
			return fmt.Errorf("push %s to %s: %w", d.Annotations[image.Repository], o.Registry, err)
		}
	}
	return nil
}

func (o Options) one(ctx context.Context, index v1.ImageIndex, d v1.Descriptor) error {
	var checks []name.Option
	if o.PlainHTTP {
		checks = append(checks, name.Insecure)
	}
	repository, err := name.NewRepository(path.Join(o.Registry, d.Annotations[image.Repository]), checks...)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("gitbind-release")}
	tagged := d.Annotations[image.RefName]
	if tagged == "" {
		document, err := index.Image(d.Digest)
		if err != nil {
			return err
		}
		return remote.Write(repository.Digest(d.Digest.String()), document, options...)
	}
	named, err := index.ImageIndex(d.Digest)
	if err != nil {
		return err
	}
	tag := repository.Tag(tagged[len(d.Annotations[image.Repository])+1:])
	if err := remote.WriteIndex(tag, named, options...); err != nil {
		return err
	}
	o.Tell(tag.Name() + "@" + d.Digest.String())
	return nil
}
