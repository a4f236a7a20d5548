package embedded

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"gitbind.dev/backend/internal/access"
)

// over says why a push has no room in its repository, and "" if it has. It is no
// ruling: the operator may give more room, or a repack make some.
//
// People may fill half of a quota and the konnector three quarters, so that the
// bridge can still say what is.
func (h *Host) over(ctx context.Context, repo *repository, role access.Role, req *pushRequest, pack int64) (string, error) {
	if most := share(role, h.cfg.MaxBytes); pack > 0 && repo.bytes()+pack > most {
		// What was counted may be gone: somebody repacked by hand.
		if size := repo.measure() + pack; size > most {
			return fmt.Sprintf("gitbind: with this push the repository would have %s, and the %s may fill %s: ask the platform's operator for more room; nothing was taken",
				mebibytes(size), role, mebibytes(most)), nil
		}
	}
	created := 0
	for _, c := range req.Commands {
		if c.create() && proposal(c.Ref) {
			created++
		}
	}
	if created == 0 {
		return "", nil
	}
	most := int(share(role, int64(h.cfg.MaxRefs)))
	refs, err := repo.refs(ctx, most+1)
	if err != nil || len(refs)+created <= most {
		return "", err
	}
	return fmt.Sprintf("gitbind: with this push the repository would have more than %d branches, which is what the %s may make: delete branches whose commits main has, or ask the platform's operator; nothing was taken",
		most, role), nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// bytes is about how large the repository is on the disk: as it was measured, and
// what was pushed since.
func (r *repository) bytes() int64 {
	if size := r.size.Load(); size > 0 {
		return size
	}
	return r.measure()
}

func (r *repository) measure() (size int64) {
	_ = filepath.WalkDir(r.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // gone since the folder was read
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	r.size.Store(size)
	return size
}
