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
	// Opened tells of the pull request that was opened last of a branch: where people look
	// at it, "" for none, and the head at which they closed it, "" if they did not.
	Opened(ctx context.Context, cluster, branch string) (page, closed string, err error)
}

// Pull is a pull request to be opened.
type Pull struct {
	// Head is the commit at which Branch stands, which is named without refs/heads/.
	Head, Branch string
	// Title is one line, and Text is Markdown.
	Title, Text string
}

// Check is what the control plane would say of a proposed change.
type Check struct {
	// Commit is the head of Branch, which is named without refs/heads/.
	Commit, Branch string
	// OK says that nothing is against it.
	OK bool
	// Words is one line of at most MaxWords characters; URL leads to more.
	Words, URL string
	// Text says more, in Markdown. It is shown beside the discussion, once.
	Text string
}

// MaxWords is how long the words of a Check may be, in characters.
const MaxWords = 250
