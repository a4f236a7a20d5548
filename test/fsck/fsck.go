// Package fsck checks repositories that a host serves, also while people push.
package fsck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Check is an error if git fsck finds something wrong with a repository: an
// object that is damaged, or one that is missing from a branch's history.
//
// Git lists the objects first and looks where the branches are last, so that a
// commit which is pushed in between counts as missing. Check asks for the
// branches before, and checks these commits.
func Check(ctx context.Context, dir string, flags ...string) error {
	refs, err := git(ctx, dir, "for-each-ref", "--format=%(objectname)")
	if err != nil {
		return err
	}
	args := append([]string{"fsck", "--no-progress", "--no-dangling"}, flags...)
	_, err = git(ctx, dir, append(args, strings.Fields(refs)...)...)
	return err
}

// CheckAll checks each repository of a folder, and counts them: none is an error, too.
func CheckAll(ctx context.Context, root string, flags ...string) (checked int, err error) {
	dirs, err := filepath.Glob(filepath.Join(root, "*.git"))
	if err == nil && len(dirs) == 0 {
		err = fmt.Errorf("there is no repository in %s", root)
	}
	for _, dir := range dirs {
		err = errors.Join(err, Check(ctx, dir, flags...))
	}
	return len(dirs), err
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s in %s: %w: %s", args[0], dir, err, out)
	}
	return string(out), err
}
