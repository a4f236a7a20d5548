package embedded

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
)

// The bounds of finding out what a change touches, which is done each time that somebody looks:
// less than a second, whatever was pushed.
const (
	// maxTouchedNames bounds the names in folders that are compared.
	maxTouchedNames = 1_000_000
	// maxTouchedBytes bounds the memory for the differences.
	maxTouchedBytes = 8 << 20
	// maxTouchedMerges bounds the merges, each of which costs a process.
	maxTouchedMerges = 32
)

// touched are the parts that commits of a change touch: see githost.Change.
func (r *repository) touched(ctx context.Context, commits []githost.Commit, main string) ([]access.Part, error) {
	left := int64(maxTouchedBytes)
	c := newCheck(ctx, r, access.Caller{}, func(bytes int64) error {
		if left -= bytes; left < 0 {
			return errCompared
		}
		return nil
	})
	defer c.reader.close()
	c.names = maxComparedNames - maxTouchedNames
	changed, merges := parts{}, 0
	for _, made := range commits {
		err := c.touchedBy(plumbing.NewHash(made.Hash), main, &merges, changed)
		if errors.Is(err, errObject) || errors.Is(err, errCompared) {
			return []access.Part{{}}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	var touched []access.Part
	for _, part := range changed {
		touched = append(touched, part)
	}
	slices.SortFunc(touched, func(a, b access.Part) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.Compact(touched), nil
}

// touchedBy adds the parts that a commit changes, and those in which a merge has not what main
// had below it: it may take main back without a change of its own.
func (c *check) touchedBy(name plumbing.Hash, main string, merges *int, changed parts) error {
	commit, err := c.commit(name)
	if err != nil {
		return err
	}
	if len(commit.Parents) > maxParents {
		return errCompared
	}
	if err := c.changedBy(name, changed); err != nil || len(commit.Parents) < 2 {
		return err
	}
	if *merges++; *merges > maxTouchedMerges {
		return errCompared
	}
	bases, err := c.repo.mergeBases(c.ctx, main, name.String())
	if err != nil {
		return err
	}
	return c.compareAll(bases, name, changed)
}

// mergeBases are those of two commits, none where they have no commit in common.
func (r *repository) mergeBases(ctx context.Context, a, b string) ([]plumbing.Hash, error) {
	out, err := r.git.output(ctx, r.dir, nil, "merge-base", "--all", a, b)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == 1 {
		return nil, nil
	}
	var bases []plumbing.Hash
	for _, name := range strings.Fields(string(out)) {
		bases = append(bases, plumbing.NewHash(name))
	}
	return bases, err
}
