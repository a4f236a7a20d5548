// Package githost is what the backend needs of a Git host, whichever it is:
// that a cluster's repository exists, and under which URL. Who may push what is
// each host's own business, by its own means.
package githost

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrCredential says that a host does not take what the backend has to sign in with.
	ErrCredential = errors.New("the Git host refuses the backend's credential, or that lacks a right: docs/hosts.md leads to what it needs")
	// ErrRenamed says that people have given a repository another name.
	ErrRenamed = errors.New("the repository was renamed or moved on the Git host: give it its old name back")
	// ErrArchived says that they have made it read-only.
	ErrArchived = errors.New("the repository is archived on the Git host, which takes no pushes to it: unarchive it")
	// ErrMarkedForDeletion says that they have deleted it, and that the host still has it.
	ErrMarkedForDeletion = errors.New("the repository is marked for deletion on the Git host: restore it there")
	// ErrOtherHistory says that a repository cannot be moved to a host, as there is another one.
	ErrOtherHistory = errors.New("the Git host has another repository in the place to which this one is to be moved: rename or delete that")
	// ErrWebhook says that a host does not send webhooks to the backend.
	ErrWebhook = errors.New("the Git host takes no webhook to the backend's address: its administrator allows that in its settings of outbound requests")
)

// MaxAnswer is how much is read of an answer of a host, in bytes.
const MaxAnswer = 8 << 20

// ErrAnswer says that a host answers with more than MaxAnswer, such as a list in which people
// wrote much.
var ErrAnswer = fmt.Errorf("the Git host's answer is larger than %d MiB", MaxAnswer>>20)

// RateLimitError says that a host answers no more requests for a while.
type RateLimitError struct {
	// Until is when it is to be asked again.
	Until time.Time
}

func (e *RateLimitError) Error() string {
	return fmt.Sprintf("the Git host's rate limit is used up until %s", e.Until.UTC().Format(time.RFC3339))
}

// TooOftenError says that an agent asked for several credentials within minutes, and the next one later.
type TooOftenError struct {
	// Until is when that may be asked for.
	Until time.Time
}

func (e *TooOftenError) Error() string {
	return fmt.Sprintf("the agent asked for several credentials within minutes, and the next one from %s on", e.Until.UTC().Format(time.RFC3339))
}

// MoveRefusedError says that a host refuses branches of a repository that is to be moved there, as
// rules do that a move before made.
type MoveRefusedError struct {
	// Words are the host's, by branch.
	Words string
}

func (e *MoveRefusedError) Error() string {
	return fmt.Sprintf("the Git host refuses branches of the repository that is to be moved there (%s): it is tried again, and where rules there are in the way, such as those of a move before, delete these or the repository in that place", e.Words)
}

// AccountTakenError says that a host has an account by the name of an agent's which the backend
// cannot show to be one that it made.
type AccountTakenError struct {
	// Name is the account's.
	Name string
}

func (e *AccountTakenError) Error() string {
	return fmt.Sprintf("the Git host has an account %s that gitbind did not make: rename or delete it there, and gitbind makes its own", e.Name)
}

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
