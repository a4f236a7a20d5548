// Package source says what is released: which checkout, commit and version, and which
// time takes the place of the time of the build, so that two builds of it are equal.
package source

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Source is one state of the checkout.
type Source struct {
	// Root is the checkout's top folder.
	Root string
	// Version is what everything is called: "v1.2.3".
	Version string
	// Commit is the full hash of HEAD; Dirty says that the checkout is not it.
	Commit string
	Dirty  bool
	// Time is the one of the commit, or $SOURCE_DATE_EPOCH.
	Time time.Time
}

// Read asks Git for the facts. version overrides what git describe says.
func Read(ctx context.Context, root, version string) (Source, error) {
	s := Source{Root: root, Version: version}
	var err error
	if s.Commit, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
		return s, err
	}
	changed, err := s.git(ctx, "status", "--porcelain")
	if err != nil {
		return s, err
	}
	s.Dirty = changed != ""
	if s.Version == "" {
		// Without a fixed length, a clone with more objects abbreviates less.
		if s.Version, err = s.git(ctx, "describe", "--tags", "--always", "--dirty", "--abbrev=12"); err != nil {
			return s, err
		}
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = s.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return s, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH is %q: want seconds since 1970", epoch)
	}
	s.Time = time.Unix(seconds, 0).UTC()
	return s, nil
}

// Changes are the subjects of the commits since the version before this one, newest
// first; none, and no version, when nothing was released before.
func (s Source) Changes(ctx context.Context) (since string, subjects []string, err error) {
	tags, err := s.git(ctx, "tag", "--merged", "HEAD^", "--list", "v*", "--sort=-v:refname")
	if err != nil || tags == "" {
		return "", nil, err
	}
	since, _, _ = strings.Cut(tags, "\n")
	log, err := s.git(ctx, "log", "--no-merges", "--format=%s", since+"..HEAD")
	return since, strings.Split(log, "\n"), err
}

func (s Source) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = s.Root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
