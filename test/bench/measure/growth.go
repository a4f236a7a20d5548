package measure

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
)

// past is what the repository was before changes.
type past struct {
	// main and status are the heads.
	main, status string
	// mirror is the size of a mirror in bytes.
	mirror int64
}

func (r *run) past(ctx context.Context) (past, error) {
	heads, err := stage.Git(ctx, r.Repository(), "rev-parse", "main", "status")
	if err != nil {
		return past{}, err
	}
	size, err := r.mirrored(ctx)
	if err != nil {
		return past{}, err
	}
	main, status, _ := strings.Cut(heads, "\n")
	return past{main: main, status: status, mirror: size}, nil
}

// growth is by how much n changes have grown the repository, once it is packed.
func (r *run) growth(ctx context.Context, n int, before past) error {
	main, err := r.grown(ctx, "main", before.main)
	if err != nil {
		return err
	}
	status, err := r.grown(ctx, "status", before.status)
	if err != nil {
		return err
	}
	mirror, err := r.mirrored(ctx)
	if err != nil {
		return err
	}
	per := func(bytes int64) float64 { return float64(bytes) / float64(n) }
	r.add(figure.One("growth of main, packed, per changed claim", r.size, "bytes", per(main)).Judged(figure.AtMost(600, "≤ 600 bytes")))
	r.add(figure.One("growth of status, packed, per changed claim", r.size, "bytes", per(status)))
	r.add(figure.One("growth of the whole repository, as git passes it on, per changed claim", r.size, "bytes", per(mirror-before.mirror)))
	return nil
}

// grown is by how many bytes a branch has grown since a commit, both packed from
// scratch.
func (r *run) grown(ctx context.Context, branch, since string) (int64, error) {
	dir, err := os.MkdirTemp(r.Dir, "growth")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if _, err := stage.Git(ctx, dir, "clone", "--quiet", "--bare", "--no-local", "--single-branch", "--branch="+branch, r.Repository(), "."); err != nil {
		return 0, err
	}
	after, err := packed(ctx, dir)
	if err != nil {
		return 0, err
	}
	if _, err := stage.Git(ctx, dir, "update-ref", "refs/heads/"+branch, since); err != nil {
		return 0, err
	}
	was, err := packed(ctx, dir)
	return after - was, err
}

// packed is the size of a repository in bytes, once it is packed.
func packed(ctx context.Context, dir string) (int64, error) {
	// From scratch, what is compressed included: git would keep an object as it was
	// pushed in the later state, where the earlier one has it compressed by git. And
	// in one thread: where two divide the objects, deltas end, elsewhere each time.
	if _, err := stage.Git(ctx, dir, "repack", "-a", "-d", "-F", "-q", "--threads=1"); err != nil {
		return 0, err
	}
	return packs(dir)
}

// mirrored is the size of a mirror in bytes, which has the deltas and objects as
// the host's own maintenance makes and keeps them.
func (r *run) mirrored(ctx context.Context) (int64, error) {
	dir, err := os.MkdirTemp(r.Dir, "mirror")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if _, err := stage.Git(ctx, dir, "clone", "--quiet", "--mirror", "--no-local", r.Repository(), "."); err != nil {
		return 0, err
	}
	return packs(dir)
}

// packs is the size of a repository's packs in bytes.
func packs(dir string) (size int64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}
