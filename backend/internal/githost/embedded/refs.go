package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
)

// readRef reads one ref from a bare repository's files, in the order in which
// git writes them: the loose file first, then packed-refs. A ref that does not
// exist gives the zero hash. ref must be a valid name: it becomes a path.
func readRef(dir, ref string) (plumbing.Hash, error) {
	if !validRef(ref) {
		return plumbing.ZeroHash, fmt.Errorf("read ref: %q is no ref name", abbreviate(ref))
	}
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(ref)))
	switch {
	case err == nil:
		h := strings.TrimSpace(string(b))
		if !plumbing.IsHash(h) {
			return plumbing.ZeroHash, fmt.Errorf("read %s: %q is no object name", ref, abbreviate(h))
		}
		return plumbing.NewHash(h), nil
	// A folder stands where the ref would be, or a ref where its folder would.
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		return readPackedRef(dir, ref)
	}
	return plumbing.ZeroHash, err
}

func readPackedRef(dir, ref string) (plumbing.Hash, error) {
	f, err := os.Open(filepath.Join(dir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return plumbing.ZeroHash, nil
	}
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		h, name, ok := strings.Cut(lines.Text(), " ")
		if ok && name == ref && plumbing.IsHash(h) {
			return plumbing.NewHash(h), nil
		}
	}
	return plumbing.ZeroHash, lines.Err()
}
