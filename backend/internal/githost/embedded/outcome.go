package embedded

import (
	"bufio"
	"context"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
)

// Outcome implements githost.Changes.
func (h *Host) Outcome(ctx context.Context, cluster, branch, commit string) (outcome githost.Outcome, err error) {
	ref, err := changeRef(branch)
	if err != nil {
		return githost.Outcome{}, err
	}
	err = h.reading(ctx, cluster, "main", func(ctx context.Context, repo *repository, main string) (err error) {
		outcome, err = repo.outcome(ctx, cluster, ref, plumbing.NewHash(commit), plumbing.NewHash(main))
		return err
	})
	return outcome, err
}

func (r *repository) outcome(ctx context.Context, cluster, ref string, commit, main plumbing.Hash) (githost.Outcome, error) {
	merged, err := r.isAncestor(ctx, commit, main)
	if err != nil {
		if _, missing := r.resolve(ctx, commit.String()); errors.Is(missing, githost.ErrNotFound) {
			return githost.Outcome{Lost: true}, nil
		}
	}
	if err != nil || merged {
		return githost.Outcome{Merged: merged}, err
	}
	head, err := readRef(r.dir, ref)
	if err != nil {
		return githost.Outcome{}, err
	}
	if head.IsZero() {
		// A merge sets main before its branch goes: it may have come meanwhile.
		if main, err = readRef(r.dir, mainRef); err == nil {
			merged, err = r.isAncestor(ctx, commit, main)
		}
		return githost.Outcome{Merged: merged, Closed: err == nil && !merged}, err
	}
	has, err := r.isAncestor(ctx, commit, head)
	if err != nil {
		return githost.Outcome{}, err
	}
	if !has {
		// What is said of the branch is not said of this commit.
		lost, err := r.isAncestor(ctx, head, commit)
		if err == nil && !lost {
			lost, err = r.byKonnector(ctx, cluster, head)
		}
		return githost.Outcome{Lost: lost}, err
	}
	events, err := r.events(ctx, []string{head.String()})
	c := githost.Change{Head: head.String(), Events: events[head.String()]}
	return githost.Outcome{Head: c.Head, Rejection: c.Rejection()}, err
}

// byKonnector reports whether a cluster's konnector made a commit. Nobody else may give
// its address, on this host.
func (r *repository) byKonnector(ctx context.Context, cluster string, commit plumbing.Hash) (bool, error) {
	var committer string
	err := r.stream(ctx, nil, func(out *bufio.Reader) (err error) {
		committer, err = out.ReadString('\n')
		return err
	}, "log", "--max-count=1", "--format=%ce", commit.String())
	return ofDomain(strings.TrimSpace(committer), contract.ClusterDomain(cluster)), err
}
