package githost

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
)

var (
	// ErrMoved says that a branch is not, or no longer, as the caller saw it.
	ErrMoved = errors.New("it has changed meanwhile")
	// ErrMessage says that a message cannot be one of a commit.
	ErrMessage = errors.New("the message cannot be taken")
	// ErrFull says that no more is kept of a commit's review, or of a repository.
	ErrFull = errors.New("there is no room for more")
)

// The bounds of what people read and write about one proposed change.
const (
	// MaxChanges bounds the changes of a list that people see.
	MaxChanges = 200
	// MaxChangedFiles bounds the files that are shown of one.
	MaxChangedFiles = 300
	// MaxChangeCommits bounds the commits that are shown of one.
	MaxChangeCommits = 100
	// MaxEvents bounds what is recorded of one commit, for each kind of event: those
	// who push or talk much leave room for a verdict.
	MaxEvents = 100
	// MaxMessage is the longest message, in characters.
	MaxMessage = 4 << 10
)

// PullPrefix begins the name of the branch that the copy of a pull request has, before its
// number. No other branch is copied by such a name.
const PullPrefix = contract.ChangesPrefix + "pull-"

// PullNumber is that of the pull request of which a branch is the copy; ok is false of a branch
// that is none, such as one of an API whose plural begins with "pull-".
func PullNumber(branch string) (number int64, ok bool) {
	digits, ok := strings.CutPrefix(branch, PullPrefix)
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil {
		return 0, false
	}
	return int64(n), true
}

// Changes shows proposed changes, keeps what is said of them, and merges them. A
// proposed change is a branch below changes/ with commits that main does not have. Who
// may do so is the caller's business: it must have asked already.
//
// A branch is named without refs/heads/. ErrNotFound says that there is no such branch,
// or that main has all of it.
type Changes interface {
	// Changes lists them, each without what Change adds: what is open before what is rejected,
	// and by name. Of more than MaxChanges those with the newest commits are listed, and more
	// says that there are others.
	Changes(ctx context.Context, cluster string) (changes []Change, more bool, err error)
	// Branches are those of all changes, by name.
	Branches(ctx context.Context, cluster string) ([]string, error)
	// Change is one as a whole. Looking at it writes nothing.
	Change(ctx context.Context, cluster, branch string) (*Change, error)
	// Outcome tells what became of a commit that was proposed on a branch.
	Outcome(ctx context.Context, cluster, branch, commit string) (Outcome, error)
	// Record adds an event to the commit that a branch stands at, ErrMoved when it stands
	// at another one.
	Record(ctx context.Context, cluster, branch, head string, e Event) error
	// Merge merges a branch into main by one commit, removes the branch and records the
	// approval, ErrMoved unless head and effect are as the caller saw them.
	Merge(ctx context.Context, cluster string, m Merge) (commit string, err error)
}

// Change is a proposed change.
type Change struct {
	Branch, Head string
	// Subject, Author and When are of the head, as it says.
	Subject, Author string
	When            time.Time
	// Events are those of all commits of the change, the oldest first.
	Events []Event

	// Effect is a digest of what main would have other than now: of Files. It stays the
	// same when main moves on elsewhere.
	Effect string
	// Files are what main would have other than now, by path.
	Files []FileChange
	// More says that there are more of Files, or one whose path is longer than MaxPath, which
	// they end before; then Effect is "".
	More bool
	// Conflicts are the files that main has changed otherwise; then there are no Files.
	Conflicts []string
	// Imported says that it was pushed to another Git host, from which the repository moved, and
	// that nobody has pushed it here: it is not known who did, and anybody may commit there with
	// the konnector's address.
	Imported bool
	// Unrelated says that the branch has no commit in common with main.
	Unrelated bool
	// Commits are those that main does not have, the newest first, without diffs; Older
	// says that there are more.
	Commits []Commit
	Older   bool
	// Touched are the parts that any of Commits changes, as a push of it is judged, and those in
	// which a merge among them has not what main had below it: also where a later commit has
	// them as main has. It is all of the repository where that takes too long to find out.
	Touched []access.Part
}

// Outcome is what became of a proposed commit.
type Outcome struct {
	// Merged says that main has it. Otherwise Closed says that its branch is gone, and Head
	// is where it stands, "" where it lacks the commit. Lost says that the repository does not
	// have the commit any more, or that the branch has gone back to before it, or has another
	// one of the konnector's in its place. A copy may not have it yet.
	Merged, Closed, Lost bool
	Head                 string
	// Rejection is the verdict against the head of its branch, nil for none.
	Rejection *Event
}

// ProposedBy are the people who pushed a commit of the change, each once.
func (c *Change) ProposedBy() []string {
	var people []string
	for _, e := range c.Events {
		if e.Kind == EventPushed && !slices.Contains(people, e.By) {
			people = append(people, e.By)
		}
	}
	return people
}

// Rejected tells whether the last verdict on the head was against it.
func (c *Change) Rejected() bool { return c.Rejection() != nil }

// Rejection is the last verdict on the head, if it was against it; otherwise nil.
func (c *Change) Rejection() *Event {
	for _, e := range slices.Backward(c.Events) {
		if e.Commit == c.Head && (e.Kind == EventApproved || e.Kind == EventRejected) {
			if e.Kind == EventApproved {
				return nil
			}
			return &e
		}
	}
	return nil
}

// FileChange is a file that a merge would change.
type FileChange struct {
	Path string
	// Before and After are the blobs, "" where there is no file.
	Before, After string
	// Was and Is are the contents; nil where there is no file, and where the files of the
	// change are too large as a whole.
	Was, Is []byte
	// Irregular says that the file would be no plain file: a link, an executable or a
	// submodule.
	Irregular bool
	// Diff is as Commit.Diff has it; Cut says that there is more of it.
	Diff []string
	Cut  bool
}

// EventKind is what happened.
type EventKind string

// The events of a proposed change.
const (
	EventPushed    EventKind = "pushed"
	EventCommented EventKind = "commented"
	EventApproved  EventKind = "approved"
	EventRejected  EventKind = "rejected"
)

// Event is something that a person did with a commit of a proposed change. The host
// vouches for it: it is recorded in the notes refs/notes/reviews, a JSON object a line,
// to which nobody can push.
type Event struct {
	Kind EventKind `json:"event"`
	// By is the username.
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Branch is that of an event "pushed".
	Branch string `json:"branch,omitempty"`
	// Effect is what was approved, of an event "approved".
	Effect  string `json:"effect,omitempty"`
	Message string `json:"message,omitempty"`
	// Commit is the one that it is about. It follows from where the event is kept.
	Commit string `json:"-"`
}

// Merge is a merge to be made.
type Merge struct {
	Branch string
	// Head and Effect are as the person who approves saw them.
	Head, Effect string
	// By is that person's username, who becomes the author, and Message their words.
	By, Message string
	At          time.Time
}
