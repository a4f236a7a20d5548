// Package image makes OCI images of files, for several architectures, without a
// container engine: the same files give the same digests. It builds nothing, and pushes
// nothing.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// User is who programs run as: a number, which runAsNonRoot can judge.
const User = "65532"

// File is one file of an image, owned by root.
type File struct {
	// Path has no slash at its beginning, nor at its end.
	Path string
	Mode int64
	// Link makes the file a symbolic link, Dir a folder; otherwise it has the content.
	Link    string
	Dir     bool
	Content []byte
}

// base are the files that each image has: who the user is, certificates, and a folder for
// temporary files, over which the deployments mount one that can be written to.
func base() ([]File, error) {
	roots, err := certificates()
	return []File{
		{Path: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/:/nonexistent\ngitbind:x:" + User + ":" + User + ":gitbind:/tmp:/nonexistent\n")},
		{Path: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\ngitbind:x:" + User + ":\n")},
		{Path: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: roots},
		{Path: "tmp", Mode: 0o1777, Dir: true},
	}, err
}

// certificates are Mozilla's roots as the Go project has them, in PEM. Those that only
// count for certificates of before a day are left out, as a file cannot say that.
func certificates() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		c, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("read the root certificates: %w", err)
		}
		fmt.Fprintf(&out, "# %s\n", c.Subject)
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// layer is a layer of files. All are of one time, and folders come before what is in them.
func layer(files []File, at time.Time) (v1.Layer, error) {
	all := map[string]File{}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if there, ok := all[dir]; !ok || !there.Dir {
				all[dir] = File{Path: dir, Mode: 0o755, Dir: true}
			}
		}
		all[f.Path] = f
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].write(w, at); err != nil {
			return nil, fmt.Errorf("add %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
}

func (f File) write(w *tar.Writer, at time.Time) error {
	h := &tar.Header{Name: f.Path, Mode: f.Mode, Size: int64(len(f.Content)), Typeflag: tar.TypeReg, ModTime: at, Format: tar.FormatPAX}
	switch {
	case f.Dir:
		h.Name, h.Typeflag = f.Path+"/", tar.TypeDir
	case f.Link != "":
		h.Linkname, h.Typeflag, h.Mode = f.Link, tar.TypeSymlink, 0o777
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.Content)
	return err
}
