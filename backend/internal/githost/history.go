package githost

import (
	"context"
	"errors"
	"time"
)

// ErrNotFound says that a repository has no such branch, commit or file.
var ErrNotFound = errors.New("not in the repository")

// ErrTooLarge says that a file is larger than History reads.
var ErrTooLarge = errors.New("the file is too large to be read")

// ErrTooMany says that a folder holds more files than History lists.
var ErrTooMany = errors.New("there are too many files to be listed")

// MaxFile is the largest file that History reads, in bytes: that of a claim,
// and of what the bridge says about one.
const MaxFile = 2 << 20

// MaxPath is the longest path that History lists and Changes shows, in bytes: more than that of any
// claim.
const MaxPath = 1 << 10

// History reads what a cluster's repository holds and held, for people to look
// at. Who may look is the caller's business: it must have asked already.
//
// A revision is the name of a branch (main, status) or a commit. What comes back
// is as somebody pushed it: it may be no UTF-8, hold control characters, and lie
// about anything but hashes.
type History interface {
	// Head is the commit that a branch stands at, ErrNotFound when there is none.
	Head(ctx context.Context, cluster, branch string) (commit string, err error)
	// List gives the files below a folder that keep wants, by path, and ErrTooMany
	// when there are more than anybody would look at. A folder that is not there
	// has none; a file whose path is longer than MaxPath is left out.
	List(ctx context.Context, cluster, revision, folder string, keep func(path string) bool) ([]File, error)
	// Read gives a file's content and its blob, ErrNotFound when there is none,
	// and ErrTooLarge, with the blob, beyond MaxFile.
	Read(ctx context.Context, cluster, revision, path string) (data []byte, blob string, err error)
	// Blobs calls fn with the content of each blob, in their order, and nil for
	// one that is beyond MaxFile. The content is fn's only until it returns.
	Blobs(ctx context.Context, cluster string, blobs []string, fn func(blob string, data []byte) error) error
	// Log gives the commits of main that changed a file, the newest first, at
	// most limit of them.
	Log(ctx context.Context, cluster, path string, limit int) ([]Commit, error)
	// Versions gives the contents that a file of a branch had, the newest first, at
	// most limit of them, each with the commit that brought it to the branch: of a
	// merge that is the merge itself.
	Versions(ctx context.Context, cluster, branch, path string, limit int) ([]Version, error)
}

// Version is a content of a file, and the commit with which a branch had it.
type Version struct {
	Commit string
	// Blob is the Git hash of the content, "" for a removal.
	Blob          string
	Author, Email string
	// When is the time of the commit, by the clock of who made it.
	When time.Time
	// First says that the branch's history begins here: what it has may be older.
	First bool
}

// File is one file of a commit.
type File struct {
	Path string
	// Blob is the Git hash of the content.
	Blob string
	// Regular is false for a symbolic link, a submodule and an executable.
	Regular bool
}

// Commit is one that changed a file.
type Commit struct {
	Hash string
	// Author and Email are as the commit says. The host vouches for an address
	// in claim.ReservedDomain only.
	Author, Email string
	// With are the further authors, "name <address>".
	With    []string
	When    time.Time
	Subject string
	// Diff is a unified diff of the file, without its header: lines that begin
	// with "@@", " ", "+", "-" or "\".
	Diff []string
	// Cut says that the diff was longer than what is here.
	Cut bool
}
