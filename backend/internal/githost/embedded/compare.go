package embedded

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxComparedNames bounds the names in folders that one push has compared, which takes
// some seconds: those of each pair of folders, and those in which a commit differs from a
// parent.
const maxComparedNames = 8_000_000

// differenceBytes is about what one difference takes in memory, with its names.
const differenceBytes = 256

// differ gives the names in which two folders differ. Many commits may name the same few:
// each pair is read and compared once.
func (c *check) differ(before, after plumbing.Hash) ([]difference, error) {
	if before == after {
		return nil, nil
	}
	// Nothing here waits for git, which would notice the end of the push.
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	pair := [2]plumbing.Hash{before, after}
	if known, ok := c.compared[pair]; ok {
		return known, nil
	}
	was, err := c.tree(before)
	if err != nil {
		return nil, err
	}
	is, err := c.tree(after)
	if err != nil {
		return nil, err
	}
	if err := c.countNames(len(was) + len(is)); err != nil {
		return nil, err
	}
	all := differences(was, is)
	if err := c.charge(int64(len(all)+1) * differenceBytes); err != nil {
		return nil, err
	}
	c.compared[pair] = all
	return all, nil
}

// errCompared says that a push takes too long to compare.
var errCompared = fmt.Errorf("more than %d names are to be compared with those of its parents: push its commits in several pushes", maxComparedNames)

// countNames bounds the names that a push has compared, in however many pairs of folders:
// others wait for it.
func (c *check) countNames(n int) error {
	if c.names += n; c.names > maxComparedNames {
		return errCompared
	}
	return nil
}
