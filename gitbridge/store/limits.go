package store

import (
	"errors"
	"fmt"
)

// LimitError says that a branch holds more than is read. Trying again does not help:
// nothing of the commit is read until the branch is at another one.
type LimitError struct {
	Branch string
	// Head is the commit that is not read.
	Head Hash
	// Reason says what is too much, and how much is allowed: "it has more than …".
	Reason string
	// Passing says that asking again later may do, and costs as much as the first time:
	// other repositories take the memory just now, or claims are not answered yet.
	Passing bool
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("branch %s at %s is not read: %s", e.Branch, e.Head.Short(), e.Reason)
}

// LastingLimit is the LimitError in an error that trying again does not help against, nil
// for any other error.
func LastingLimit(err error) *LimitError {
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Passing {
		return nil
	}
	return limit
}
