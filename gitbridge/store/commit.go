package store

import "gitbind.dev/gitbridge/store/internal/object"

// NewCommit is for implementations.
func NewCommit(id object.ID, c object.CommitData) Commit {
	out := Commit{
		Hash:      hash(id),
		Author:    Signature{c.Author.Name, c.Author.Email},
		Committer: Signature{c.Committer.Name, c.Committer.Email},
		Time:      c.Committer.When,
		Message:   c.Message,
	}
	for _, p := range c.Parents {
		out.Parents = append(out.Parents, hash(p))
	}
	return out
}
