// Package store is the Git engine's contract: read immutable snapshots of one
// branch, and change it by compare-and-swap on the remote's head. It has no
// worktree, no index and no merge: a change is a function of the newest tree,
// and is run again when somebody else was first.
//
// Implementations are gitstore (a real remote) and memstore (tests); storetest
// holds the rules that both keep.
package store

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"time"

	"gitbind.dev/gitbridge/signing"
)

// Hash is a Git object name in hexadecimal, or "" for none.
type Hash string

// BlobHash is Git's name of a file with this content.
func BlobHash(data []byte) Hash {
	return Hash(fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data))))
}

// Short is the hash's first ten digits, for people.
func (h Hash) Short() string {
	if len(h) > 10 {
		return string(h[:10])
	}
	return string(h)
}

// Branch is one branch of one remote repository. Its methods may be called by
// many goroutines at once.
type Branch interface {
	// Snapshot is the newest snapshot that this process knows, without asking
	// the remote. Before the first Fetch or Update it is empty: Head is "".
	Snapshot() *Snapshot

	// Fetch asks the remote for the branch's head and returns its snapshot.
	// A branch that does not exist gives an empty snapshot and no error.
	Fetch(ctx context.Context) (*Snapshot, error)

	// FetchTip is Fetch for a caller who was told that the branch is at tip
	// now: it spares the wait for the question. A hint that is old or wrong costs
	// a request more; the snapshot is never older than what is known, but may be
	// one that was the newest a moment ago. With tip "" it is Fetch.
	FetchTip(ctx context.Context, tip Hash) (*Snapshot, error)

	// At asks the remote for the snapshot of a commit that the branch has, or had. The error is
	// ErrNotExist where the remote does not give it.
	At(ctx context.Context, commit Hash) (*Snapshot, error)

	// Update commits an edit on the newest tree and returns the snapshot that
	// the remote has acknowledged, which may hold other edits too: edits that
	// wait while a push is under way travel together, as one commit for each
	// author. An edit that changes nothing makes no commit.
	//
	// The error is the edit's own when Apply failed (the other edits of the
	// batch go on), ErrConflict, ErrRewritten, ErrRejected, a NotTakenError, or one of transport. After an
	// error of transport, or when ctx ended, the edit may or may not be on the
	// remote.
	//
	// Two processes that make the same change on the same commit, with the same
	// author and committer in the same second, make the same commit; both may be
	// told that it is theirs.
	Update(ctx context.Context, e Edit) (*Snapshot, error)

	// UpdateFrom is Update for a branch that may have to be created: then its
	// first commit has from, a snapshot of another branch of this repository, as
	// its parent and its tree. On a branch that exists it is Update, so that the
	// same edit made again is no change. An edit that changes nothing of from
	// creates no branch, and its snapshot is from.
	UpdateFrom(ctx context.Context, from *Snapshot, e Edit) (*Snapshot, error)

	// UpdateOver is UpdateFrom for a branch that may be at a commit that from has: then the
	// edit is made on from, and the branch goes forward to it.
	UpdateOver(ctx context.Context, over Hash, from *Snapshot, e Edit) (*Snapshot, error)

	// Cut makes an edit on the newest tree, which may change nothing, and commits
	// the tree as the beginning of a new history: the commit has no parent, and
	// takes the place of the head that it was made on. It is for branches that
	// nobody builds on. Where the remote does not allow that, the error is
	// ErrRejected; otherwise errors are those of Update. Readers of the branch
	// see the edit and nothing else.
	Cut(ctx context.Context, e Edit) (*Snapshot, error)

	// Remove takes the branch away, provided that it is at a commit. One that is not
	// there is no error. ErrConflict says that it is at another one, ErrRejected that the
	// remote's rules keep it.
	Remove(ctx context.Context, at Hash) error

	// Log returns the commits that to has and since has not, newest first, and
	// whether since is an ancestor of to (or equal to it). With since "" it is
	// the whole history, and descends is false. Commits have messages and
	// parents, no trees.
	Log(ctx context.Context, since, to Hash) (commits []Commit, descends bool, err error)

	// Recent returns to and those of its ancestors that are fewer than depth parents away,
	// newest first. Where a parent of one of them is missing there is more history.
	Recent(ctx context.Context, to Hash, depth int) ([]Commit, error)
}

// Edit is one change by one author.
type Edit struct {
	Author    Signature
	CoAuthors []Signature
	// Subject is one line, for example
	// "claim: update team-a/orders (postgresqlinstances.anynines.com)".
	// When edits travel together it becomes a line of the commit's body.
	Subject  string
	Trailers []Trailer
	// Since, if it is not "", is a commit of the branch on which the change was decided. Where
	// the branch does not descend from it any more, the error is ErrRewritten.
	Since Hash
	// Apply makes the change. It may run several times, each time on a newer
	// tree, and must decide from that tree alone. It must not block, nor ask the
	// Branch for anything but its Snapshot: others wait.
	Apply func(*Tree) error
}

// Signature is who made a commit.
type Signature struct {
	Name, Email string
}

func (s Signature) String() string { return fmt.Sprintf("%s <%s>", s.Name, s.Email) }

// Trailer is a "Key: value" line at the end of a commit message.
type Trailer struct {
	Key, Value string
}

// Commit is a commit without its tree.
type Commit struct {
	Hash      Hash
	Parents   []Hash
	Author    Signature
	Committer Signature
	// Time is the committer's.
	Time    time.Time
	Message string
	// SignedBy is the key with which the commit is signed; "" without a signature that is
	// its own, and where signatures are not read. Whether the key counts is not asked.
	SignedBy signing.Key
}

var (
	// ErrConflict says that others kept pushing first until the tries were
	// spent. Trying again later is right.
	ErrConflict = errors.New("branch kept moving")
	// ErrRewritten says that a branch does not descend from a commit that it had, as when the
	// remote was restored from a backup. The edit was not made.
	ErrRewritten = errors.New("branch was rewritten")
	// ErrUnauthorized says that the remote refused the credential.
	ErrUnauthorized = errors.New("credential refused")
	// ErrHostKey says that the remote did not show a key, over SSH, that is known to be
	// its own. It may be somebody else.
	ErrHostKey = errors.New("host key refused")
	// ErrRepositoryNotFound says that there is no such repository, or not for
	// this credential.
	ErrRepositoryNotFound = errors.New("repository not found")
	// ErrObjectFormat says that the repository names its objects by another hash
	// than SHA-1, which nothing here reads.
	ErrObjectFormat = errors.New("the repository's object format is not sha1")
	// ErrRejected says that the remote's rules refused the push. The error
	// that wraps it carries the remote's words; trying again does not help.
	ErrRejected = errors.New("push rejected")
	// ErrNotExist says that a path is not in the tree.
	ErrNotExist = errors.New("no such file in the tree")
	// ErrTooLarge says that a file is there, but too large to be kept
	// (MaxFile).
	ErrTooLarge = errors.New("file too large")
	// ErrPath says that a path cannot be written.
	ErrPath = errors.New("path not usable")
)
