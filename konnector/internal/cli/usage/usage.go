// Package usage tells a wrong way to call a command from what goes wrong later:
// programs see it in the exit code, people are led to the help.
package usage

import "fmt"

// Error is a wrong way to call a command.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Exit ends a command with a code of its own, for programs. Err is printed, unless
// it is nil.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Remains is an error after which something stays as it is that the person is to know of, if they
// interrupted the command, too: then it is all that is said of the error.
type Remains struct {
	Err error
	// What is a sentence.
	What string
}

func (r *Remains) Error() string { return r.Err.Error() + ". " + r.What }
func (r *Remains) Unwrap() error { return r.Err }

// Errorf is fmt.Errorf for an Error.
func Errorf(format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...)}
}
