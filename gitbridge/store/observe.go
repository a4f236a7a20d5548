package store

import "time"

// Observer is told what was exchanged with a remote, while callers wait: it must
// not block. Branch is the name, such as "main".
type Observer interface {
	// Pushed says how a push of that many commits went. Without an answer it is
	// asked what became of them: then what the error hides is not known here.
	Pushed(branch string, commits int, took time.Duration, err error)
	// Fetched says how it went to ask for the branch, or to get what is new of
	// it.
	Fetched(branch string, took time.Duration, err error)
}
