package env

import (
	"io/fs"
	"path/filepath"
)

// readCheckout has `go test` run a test again when anything in the checkout has changed. Go
// keeps results by what the test itself opens, and programs that a test builds, and
// manifests that it has kubectl apply, are opened by others.
func readCheckout(root string) error {
	// To read a folder is enough: the sizes and times of its files count then.
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || path == root:
			return err
		case d.Name()[0] == '.' || filepath.Dir(path) == root && (d.Name() == "bin" || d.Name() == "dist"):
			return filepath.SkipDir
		}
		return nil
	})
}
