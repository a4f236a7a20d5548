// Package facts reads from a repository what the guard and the contract's decoders ask about
// it. It decides nothing.
package facts

import (
	"context"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// File is a file of a tree as decoders take it. One that is too large, or no regular file, comes
// without its content: what its entry says of it is enough to refuse it.
func File(tree *store.Snapshot, e store.Entry) (contract.File, error) {
	f := contract.File{Path: e.Path, Mode: uint32(e.Mode), Size: e.Size}
	if e.Mode != store.Regular || e.Size > contract.MaxFileSize {
		return f, nil
	}
	var err error
	f.Data, err = tree.Read(e.Path)
	return f, err
}

// Main is branch main of an app cluster's repository.
type Main struct {
	store.Branch
	ClusterID string
}

// Ask answers a Lineage.
func (m Main) Ask(ctx context.Context, since, to string) (between []string, descends bool, err error) {
	commits, descends, err := m.Log(ctx, store.Hash(since), store.Hash(to))
	return Hashes(commits), descends, err
}

// Descends reports whether a commit is another one or a descendant of it, and whether the
// konnector alone made the commits between the two.
func (m Main) Descends(ctx context.Context, since, to string) (descends, konnectorOnly bool, err error) {
	commits, descends, err := m.Log(ctx, store.Hash(since), store.Hash(to))
	return descends, !slices.ContainsFunc(m.Commits(commits), func(c guard.Commit) bool { return !c.Konnector }), err
}

// Commits are commits as the guard reads them. Which are the konnector's goes by the
// committer: hosts refuse that identity from others.
func (m Main) Commits(commits []store.Commit) []guard.Commit {
	_, email := contract.ComponentIdentity(contract.Konnector, m.ClusterID)
	var out []guard.Commit
	for _, c := range commits {
		commit := guard.Commit{Hash: string(c.Hash), Konnector: c.Committer.Email == email, Time: c.Time, Message: c.Message}
		for _, p := range c.Parents {
			commit.Parents = append(commit.Parents, string(p))
		}
		out = append(out, commit)
	}
	return out
}

// Hashes are the names of commits.
func Hashes(commits []store.Commit) []string {
	var out []string
	for _, c := range commits {
		out = append(out, string(c.Hash))
	}
	return out
}

// Claims are the numbers of claims that bindings have on a head of main, each counted
// once.
type Claims struct {
	head   store.Hash
	counts map[string]int
}

// In counts the claims of a binding.
func (c *Claims) In(main *store.Snapshot, binding string) int {
	if c.head != main.Head() || c.counts == nil {
		c.head, c.counts = main.Head(), map[string]int{}
	}
	n, ok := c.counts[binding]
	if !ok {
		for range main.List(contract.ClaimsPath(binding)) {
			n++
		}
		c.counts[binding] = n
	}
	return n
}
