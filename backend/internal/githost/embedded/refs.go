package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/contract"
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

// refs are branches, at most limit of them.
func (r *repository) refs(ctx context.Context, limit int) (map[string]string, error) {
	out, err := r.git.output(ctx, r.dir, nil, "for-each-ref", fmt.Sprintf("--count=%d", limit), "--format=%(objectname) %(refname)", contract.HeadsPrefix)
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if hash, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			refs[ref] = hash
		}
	}
	return refs, nil
}

// heads are the branches, at most limit of them, and main and status whichever
// are left out.
func (r *repository) heads(ctx context.Context, limit int) (map[string]string, error) {
	heads, err := r.refs(ctx, limit)
	if err != nil {
		return nil, err
	}
	for _, ref := range []string{mainRef, statusRef} {
		hash, err := readRef(r.dir, ref)
		if err != nil {
			return nil, err
		}
		if !hash.IsZero() {
			heads[ref] = hash.String()
		}
	}
	return heads, nil
}
