package embedded

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
)

// noRoom says that something does not fit: into the repository's quota, or on the disk.
// It unwraps to githost.ErrFull.
type noRoom struct {
	// what is used up, and push the answer to a push.
	what, push string
}

func (n *noRoom) Error() string { return n.what + ": " + githost.ErrFull.Error() }

func (n *noRoom) Unwrap() error { return githost.ErrFull }

const (
	diskFull  = "the disk of the Git host is full"
	quotaFull = "the repository's quota is used up"
)

// room gives a *noRoom unless the repository, and the disk, have room for so many bytes and
// the new branches of a push.
func (h *Host) room(ctx context.Context, repo *repository, role access.Role, req *pushRequest, bytes int64) error {
	if !h.hasRoom(bytes) {
		return &noRoom{diskFull, "gitbind: " + diskFull + ": its operator must make room; nothing was taken, and pushing again later is enough"}
	}
	why, err := h.over(ctx, repo, role, req, bytes)
	if err == nil && why != "" {
		err = &noRoom{quotaFull, why}
	}
	return err
}

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
