package gitstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/object"
	"gitbind.dev/gitbridge/store/limits"
	"gitbind.dev/gitbridge/store/memory"
	"gitbind.dev/gitbridge/store/pack"
)

const (
	// readMemory is how many bytes the reads of all repositories may have at the same
	// time; one of them may have maxKept beyond that.
	readMemory = 64 << 20
	// treeMemory is how many bytes the newest trees of all branches may take.
	treeMemory = 320 << 20
)

// process is the memory of all repositories that this process opened.
var process = struct {
	reads *memory.Budget
	trees *memory.Shares
}{memory.NewBudget(readMemory), memory.NewShares(treeMemory)}

// keep counts a tree that is about to be kept in place of the one before.
func (r *remote) keep(s *store.Snapshot) error {
	bytes := s.Root().Memory()
	if r.kept.Set(bytes) {
		return nil
	}
	return &store.LimitError{Branch: r.ref.Short(), Head: s.Head(), Passing: true, Reason: fmt.Sprintf(
		"it takes %d MiB of memory, and those of other repositories leave less of %d MiB", bytes>>20, treeMemory>>20)}
}

// limited makes of an error that says that there is more than is read, in what, the
// one that tells callers so.
func (r *remote) limited(at store.Hash, in string, err error) error {
	for _, limit := range []error{object.ErrLimit, pack.ErrLimit, errTooMuch} {
		if !errors.Is(err, limit) {
			continue
		}
		_, words, _ := strings.Cut(err.Error(), limit.Error())
		return &store.LimitError{Branch: r.ref.Short(), Head: at, Reason: in + limit.Error() + words}
	}
	return err
}

// packLimits bound what one answer may cost.
func (r *remote) packLimits(objects int) pack.Limits {
	return pack.Limits{
		Objects: objects, Total: maxUnpacked * r.http.limit, Kept: min(inflation*r.http.limit, maxKept),
		Commit: limits.Commit, Commits: limits.Commits,
	}
}

// fetch asks for a pack and has it used, within the memory that this process has for
// that.
func (r *remote) fetch(ctx context.Context, req *packp.UploadPackRequest, o pack.Options, use func(fetched) error) error {
	ctx, claim := process.reads.Claim(ctx)
	defer claim.Release()
	o.Charge = claim.Take
	p, err := r.uploadPack(ctx, req, o)
	if err == nil {
		err = use(p)
	}
	if errors.Is(err, memory.ErrBusy) {
		return &store.LimitError{Branch: r.ref.Short(), Head: store.Hash(req.Wants[0].String()), Passing: true, Reason: memory.ErrBusy.Error()}
	}
	return err
}
