// Package githost is what the backend needs of a Git host, whichever it is:
// that a cluster's repository exists, and under which URL. Who may push what is
// each host's own business, by its own means.
package githost

import (
	"context"
	"errors"
)

// ErrCredential says that a host does not take what the backend has to sign in with.
var ErrCredential = errors.New("the Git host refuses the backend's token, or it lacks a scope: see docs/gitea.md")

// Host keeps one repository for each cluster, named by the cluster's id.
type Host interface {
	// Create makes the repository, with a first commit on main, and what of its surroundings
	// is missing. What exists already is left as it is, and is no error.
	Create(ctx context.Context, id string) error
	// Exists tells whether the repository is there and usable.
	Exists(ctx context.Context, id string) (bool, error)
	// URL is the clone URL, whether or not the repository exists.
	URL(id string) string
}
