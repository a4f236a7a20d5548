package embedded

import (
	"context"
	"errors"
	"fmt"
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
	// maxTouchedMerges bounds the merges, each of which costs a process: of a push, too.
	maxTouchedMerges = 32
)

// errMerges says that there are more.
var errMerges = fmt.Errorf("more than %d merges are to be compared with main: push its commits in several pushes", maxTouchedMerges)

// touched are the parts that commits of a change touch, by comparing so many names: see
// githost.Change.
func (r *repository) touched(ctx context.Context, commits []githost.Commit, main string, maxNames int) ([]access.Part, error) {
	left := int64(maxTouchedBytes)
	c := newCheck(ctx, r, access.Caller{}, func(bytes int64) error {
		if left -= bytes; left < 0 {
			return errCompared
		}
		return nil
	})
	defer c.reader.close()
	c.names = maxComparedNames - maxNames
	changed := parts{}
	for _, made := range commits {
		name := plumbing.NewHash(made.Hash)
		commit, err := c.commit(name)
		if err == nil {
			err = c.touchedBy(name, plumbing.NewHash(main), changed)
		}
		if errors.Is(err, errObject) || errors.Is(err, errCompared) || errors.Is(err, errMerges) || len(commit.Parents) > maxParents {
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

// touchedBy adds the parts that a commit changes which main does not have, and those in which a
// merge has not what main had below it: to take main back may be all that somebody proposes by it,
// and is no change of its own. Nobody has yet proposed what a push brings.
func (c *check) touchedBy(name, main plumbing.Hash, changed parts) error {
	if err := c.changedBy(name, changed); err != nil {
		return err
	}
	commit, err := c.commit(name)
	if err != nil || len(commit.Parents) < 2 || main.IsZero() {
		return err
	}
	if has, err := c.reader.hasCommit(name); err != nil || !has {
		return err
	}
	if c.merges++; c.merges > maxTouchedMerges {
		return errMerges
	}
	bases, err := c.repo.mergeBases(c.ctx, main.String(), name.String())
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
