package githost

import "context"

// Checks is a Host on which changes are proposed and reviewed by its own means, and which
// shows there what others say of them.
type Checks interface {
	// Check has a commit show it, in the place of what it showed before.
	Check(ctx context.Context, cluster string, c Check) error
	// Open asks people to review a branch as it is, by a pull request to main. A branch that
	// they have closed as it is stays so.
	Open(ctx context.Context, cluster string, p Pull) error
	// Opened are the pull requests to main, by branch: of each branch the one that was opened
	// last.
	Opened(ctx context.Context, cluster string) (map[string]Opened, error)
}

// Opened is a pull request that there is.
type Opened struct {
	// Page is where people look at it.
	Page string
	// Closed is the head at which they closed it without merging, "" if they did not.
	Closed string
}

// Pull is a pull request to be opened.
type Pull struct {
	// Head is the commit at which Branch stands, which is named without refs/heads/.
	Head, Branch string
	// Title is one line, and Text is Markdown.
	Title, Text string
	// Shared says that people made a part of it: one that is there is kept up to date, and none is
	// opened, as hosts take the account that opens it for its author, and let the others
	// approve it.
	Shared bool
}

// Check is what the control plane would say of a proposed change.
type Check struct {
	// Commit is the head of Branch, which is named without refs/heads/.
	Commit, Branch string
	// OK says that nothing is against it, and Pending, without OK, that this is not known yet.
	OK, Pending bool
	// Words is one line of at most MaxWords characters; URL leads to more.
	Words, URL string
	// Text says more, in Markdown of at most MaxText bytes. It is shown beside the discussion, once.
	Text string
}

const (
	// MaxWords is how long the words of a Check may be, in characters.
	MaxWords = 250
	// MaxText is how long its text may be, in bytes: hosts take no more than 64 KiB, with what they
	// are told beside it.
	MaxText = 60 << 10
)
