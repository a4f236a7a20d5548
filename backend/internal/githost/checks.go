package githost

import "context"

// Checks is a Host on which changes are proposed and reviewed by its own means, and which
// shows there what others say of them.
type Checks interface {
	// Check has a commit show it, in the place of what it showed before.
	Check(ctx context.Context, cluster string, c Check) error
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
