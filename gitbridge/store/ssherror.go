package store

// SSHError says that a repository was not opened over SSH, most likely for a reason that a
// person has to remove. Nothing was changed there.
type SSHError struct {
	// Kind is ErrUnauthorized, ErrHostKey or ErrRepositoryNotFound.
	Kind error
	// Reason says what is wrong and what to do. It is the same while the trouble is the
	// same, and holds no secret.
	Reason string
}

func (e *SSHError) Error() string { return e.Kind.Error() + ": " + e.Reason }
func (e *SSHError) Unwrap() error { return e.Kind }
