package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store/limits"
)

// Merge implements githost.Changes.
func (h *Host) Merge(ctx context.Context, cluster string, m githost.Merge) (commit string, err error) {
	err = h.changing(ctx, cluster, m.Branch, m.Head, func(ctx context.Context, repo *repository, main, head plumbing.Hash) error {
		ref, err := changeRef(m.Branch)
		if err != nil {
			return err
		}
		if why := messageRule(m.Message); why != "" {
			return fmt.Errorf("%w: %s", githost.ErrMessage, why)
		}
		seen, err := repo.proposed(ctx, ref, main.String())
		if err != nil {
			return err
		}
		if m.Effect == "" || seen.Effect != m.Effect {
			return githost.ErrMoved
		}
		tree, err := repo.mergeTree(ctx, main.String(), m.Head)
		repo.size.Add(maxRecord) // what git wrote stays, whether or not it is merged
		if err != nil {
			return err
		}
		if err := h.fits(ctx, repo, tree); err != nil {
			return err
		}
		approval := githost.Event{Kind: githost.EventApproved, By: m.By, At: m.At, Effect: m.Effect, Message: m.Message}
		if err := h.addEvents(ctx, repo, access.Owner, map[string][]githost.Event{m.Head: {approval}}); err != nil {
			return err
		}
		merge, err := repo.mergeCommit(ctx, m, seen, tree, main)
		if err != nil {
			return err
		}
		commit = merge.String()
		return h.setMerged(ctx, repo, m.By, []command{{mainRef, main, merge}, {ref, head, plumbing.ZeroHash}})
	})
	return commit, err
}

// fits refuses a tree that no push could have brought.
func (h *Host) fits(ctx context.Context, repo *repository, tree string) error {
	ctx, claim := h.memory.Claim(ctx)
	defer claim.Release()
	c := newCheck(ctx, repo, access.Caller{}, claim.Take)
	defer c.reader.close()
	_, err := c.measure(plumbing.NewHash(tree), limits.Tree{})
	var words tooMuch
	if errors.As(err, &words) {
		return fmt.Errorf("main would have %w: %w", words, githost.ErrFull)
	}
	return err
}

// mergeCommit writes a merge by the person who approved it.
func (r *repository) mergeCommit(ctx context.Context, m githost.Merge, seen *githost.Change, tree string, main plumbing.Hash) (plumbing.Hash, error) {
	name, email := contract.PersonIdentity(m.By)
	var message strings.Builder
	fmt.Fprintf(&message, "Merge %s\n\n%s\n", m.Branch, seen.Subject)
	if m.Message != "" {
		fmt.Fprintf(&message, "\n%s\n", m.Message)
	}
	message.WriteString("\n")
	for _, who := range seen.ProposedBy() {
		who, _ = contract.PersonIdentity(who)
		fmt.Fprintf(&message, "Proposed-by: %s\n", who)
	}
	fmt.Fprintf(&message, "Approved-by: %s\n", name)

	g, date := *r.git, fmt.Sprintf("@%d +0000", m.At.Unix())
	g.env = []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date}
	out, err := g.output(ctx, r.dir, []byte(message.String()), "commit-tree", tree, "-p", main.String(), "-p", m.Head)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	merge := strings.TrimSpace(string(out))
	if !plumbing.IsHash(merge) {
		return plumbing.ZeroHash, fmt.Errorf("git commit-tree: unexpected answer %q", abbreviate(merge))
	}
	return plumbing.NewHash(merge), nil
}

// setMerged moves all refs, or none, and tells of it.
func (h *Host) setMerged(ctx context.Context, repo *repository, by string, commands []command) error {
	var updates bytes.Buffer
	req := &pushRequest{Commands: commands}
	before := make([]plumbing.Hash, len(commands))
	updates.WriteString("start\n")
	for i, c := range commands {
		before[i] = c.Old
		if c.remove() {
			fmt.Fprintf(&updates, "delete %s %s\n", c.Ref, c.Old)
		} else {
			fmt.Fprintf(&updates, "update %s %s %s\n", c.Ref, c.New, c.Old)
		}
	}
	updates.WriteString("prepare\ncommit\n")
	err := repo.change(ctx, &updates, refsOf(commands), "update-ref", "--stdin")
	h.announce(repo, access.Caller{Role: access.Owner, Name: by}, req, before)
	return err
}
