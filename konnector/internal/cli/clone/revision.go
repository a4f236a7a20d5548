package clone

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gitbind.dev/konnector/internal/cli/usage"
)

var (
	back = regexp.MustCompile(`^~[0-9]{1,6}$`)
	hash = regexp.MustCompile(`^[0-9a-f]{4,64}$`)
)

// CheckRevision refuses what cannot be a revision.
func CheckRevision(rev string) error {
	if back.MatchString(rev) || hash.MatchString(rev) {
		return nil
	}
	return usage.Errorf("%q is no revision: give a commit's hash (at least 4 digits of it), or ~1 for the version before the newest, ~2 for the one before that", rev)
}

// Revision finds a commit in a file's history, the newest first as Log gives it:
// by the beginning of its hash, or as "~N", counted from the newest.
func (c *Clone) Revision(ctx context.Context, history []Commit, rev string) (int, error) {
	if n, ok := strings.CutPrefix(rev, "~"); ok {
		i, err := strconv.Atoi(n)
		if err != nil {
			return 0, CheckRevision(rev)
		}
		if i >= len(history) {
			return 0, fmt.Errorf("there is no %s: main has %d versions of it, from ~0 to ~%d", rev, len(history), len(history)-1)
		}
		return i, nil
	}
	found := -1
	for i := range history {
		if !strings.HasPrefix(history[i].Hash, rev) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("%s is the beginning of several commits: give more of the hash", rev)
		}
		found = i
	}
	if found >= 0 {
		return found, nil
	}
	return 0, c.why(ctx, rev)
}

// why says why a commit is none of a file's history.
func (c *Clone) why(ctx context.Context, rev string) error {
	if _, err := c.run(ctx, nil, "rev-parse", "--verify", "--quiet", rev+"^{commit}"); err != nil {
		return fmt.Errorf("main has no commit %s", rev)
	}
	switch onMain, err := c.isOnMain(ctx, rev); {
	case err != nil:
		return err
	case !onMain:
		return fmt.Errorf("commit %s is no part of main's history: it is on another branch, or main was rewritten since", rev)
	}
	return fmt.Errorf("commit %s did not change this claim", rev)
}

// isOnMain reports whether main has a commit. Git's other ways to ask go by the dates of commits,
// which a wrong clock may have made.
func (c *Clone) isOnMain(ctx context.Context, rev string) (bool, error) {
	_, err := c.run(ctx, nil, "merge-base", "--is-ancestor", rev, main)
	var said *Error
	if errors.As(err, &said) && said.Code == 1 {
		return false, nil
	}
	return err == nil, err
}
